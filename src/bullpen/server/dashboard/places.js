// The pages, in the order of the side bar.

import activity from "./pages/activity.js";
import control from "./pages/control.js";
import cost from "./pages/cost.js";
import instance from "./pages/instance.js";
import instances from "./pages/instances.js";
import pools from "./pages/pools.js";
import queue from "./pages/queue.js";
import run from "./pages/run.js";
import runs from "./pages/runs.js";
import sets from "./pages/sets.js";
import subject from "./pages/subject.js";
import workers from "./pages/workers.js";

export const PLACES = [
  { page: "pools", name: "Pools", key: "p", open: pools },
  { page: "queue", name: "Queue", key: "q", open: queue },
  { page: "instances", name: "Instances", key: "i", open: instances, one: instance },
  { page: "runs", name: "Runs", key: "r", open: runs, one: run },
  { page: "workers", name: "Workers", key: "w", open: workers },
  { page: "sets", name: "Sets", key: "s", open: sets, one: subject },
  { page: "control", name: "Control", key: "c", open: control },
  { page: "cost", name: "Cost", key: "o", open: cost },
  { page: "activity", name: "Activity", key: "a", open: activity },
];
export const TABS = ["pools", "queue", "instances", "runs"];
const SUBJECT = { page: "subject", name: "Record", open: subject, one: subject };

export const placeOf = (page) => PLACES.find((one) => one.page === page) || (page === "subject" ? SUBJECT : null);
