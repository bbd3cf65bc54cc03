"""What happened, and what it cost: metrics, loops, series, cost and activity."""

from bullpen.model.ticket import UsageClass
from bullpen.model.usage import Owner
from bullpen.schema import (
    activity,
    control,
    cost,
    series,
    story,
)
from bullpen.server.openapi.examples.subjects import BEGAN, ENDED, INSTANCE, LATER, Example

EXAMPLES = {
    "showMetrics": Example("# TYPE bullpen_store_up gauge\nbullpen_store_up 1.0\n"),
    "showControl": Example(
        control.ControlsAnswer(
            loops=[
                control.LoopAnswer(
                    "serve on pool-1 (4711)",
                    "debts",
                    1.0,
                    True,
                    ENDED,
                    0.004,
                    [control.LoopTurnAnswer(ENDED, 0.004, True)],
                    False,
                    "",
                )
            ],
            debts=[control.OwedAnswer(INSTANCE, story.DebtKind.OFFER, LATER, "its agent")],
            more_debts=False,
            hold="",
            protection=[],
            pauses=[],
            rate_limits=[],
            runner_version=control.RunnerVersionAnswer("2.329.0", LATER),
            store=control.StoreAnswer(True, control.StoreKind.SQLITE),
            replicas=[control.ReplicaAnswer("serve on pool-1 (4711)", ENDED)],
        )
    ),
    "showSeries": Example(
        series.SeriesAnswer(
            BEGAN,
            ENDED,
            BEGAN,
            [series.ClassSeries("small", 1, 2, 0, 0, [series.MinuteAnswer(BEGAN, 1, 2, 0, 0, 0.14, 0.14, 3)])],
            [series.MarkAnswer(ENDED, "end", INSTANCE, "no heartbeat for 41 s")],
            0.0816,
            0,
        )
    ),
    "showCost": Example(
        cost.CostAnswer(
            since=BEGAN,
            until=ENDED,
            data_since=BEGAN,
            by="repository",
            total=cost.AmountAnswer(5400.0, 0.1224),
            owners=cost.OwnersAnswer(
                cost.AmountAnswer(3600.0, 0.0816),
                cost.AmountAnswer(1500.0, 0.034),
                cost.AmountAnswer(240.0, 0.00544),
                cost.AmountAnswer(60.0, 0.00136),
            ),
            rows=[
                cost.CostRowAnswer("acme/widgets", cost.OwnerSeconds(3600.0, 0.0, 240.0, 60.0), 3900.0, 0.0884),
                cost.CostRowAnswer("(no run)", cost.OwnerSeconds(0.0, 1500.0, 0.0, 0.0), 1500.0, 0.034),
            ],
            more_rows=0,
            machines=cost.AmountAnswer(5400.0, 0.1224),
            types=[cost.MachineCostAnswer("m7g.large", UsageClass.ON_DEMAND, 0.0816, 5400.0, 0.1224)],
            missing_prices=[],
            reused=40,
            avoided_seconds=2400.0,
            saved_seconds=900.0,
            saved_money=0.0204,
        )
    ),
    "listCostHours": Example(cost.HourCostList(BEGAN, ENDED, [cost.HourCostAnswer(BEGAN, Owner.RUN, 3600.0, 0.0816)])),
    "listActivity": Example(
        activity.ActivityList(
            [
                activity.NotedAction(
                    ENDED, "serve on pool-1 (4711)/reap", "terminate", INSTANCE, "idle for 7 min", True, False
                )
            ],
            "",
        )
    ),
}
