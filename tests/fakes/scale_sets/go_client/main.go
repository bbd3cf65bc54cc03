// GitHub's own client of runner scale sets, made to do what a test asks for. What happens is printed as lines of JSON.
//
//	go_client tour     calls every method of the client once
//	go_client listen   listens to a set until SIGTERM, and configures a runner for each assigned job
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/actions/scaleset"
	"github.com/actions/scaleset/listener"
)

var (
	page  = flag.String("url", "", "page of the repository or organisation")
	token = flag.String("token", "", "personal access token")
	name  = flag.String("set", "medium", "name of the set; it is created if it does not exist")
	most  = flag.Int("max", 10, "runners at most")
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("no command"))
	}
	flag.CommandLine.Parse(os.Args[2:])
	quick := scaleset.WithRetryWaitMax(50 * time.Millisecond)
	client, err := scaleset.NewClientWithPersonalAccessToken(scaleset.NewClientWithPersonalAccessTokenConfig{
		GitHubConfigURL:     *page,
		PersonalAccessToken: *token,
		SystemInfo:          scaleset.SystemInfo{System: "bullpen-tests"},
	}, quick)
	check(err)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch os.Args[1] {
	case "tour":
		tour(ctx, client)
	case "listen":
		listen(ctx, client)
	default:
		fail(fmt.Errorf("no command %q", os.Args[1]))
	}
}

// tour calls what a listener does not: together they use the whole client.
func tour(ctx context.Context, client *scaleset.Client) {
	group, err := client.GetRunnerGroupByName(ctx, "Default")
	check(err)
	made, err := client.CreateRunnerScaleSet(ctx, spec(group.ID, *name))
	check(err)
	_, err = client.CreateRunnerScaleSet(ctx, spec(group.ID, *name))
	say("refused", "error", text(err))
	byName, err := client.GetRunnerScaleSet(ctx, group.ID, *name)
	check(err)
	byID, err := client.GetRunnerScaleSetByID(ctx, made.ID)
	check(err)
	corrected, err := client.UpdateRunnerScaleSet(ctx, made.ID, spec(group.ID, *name+"-corrected"))
	check(err)
	say("sets", "group", group.ID, "made", made.ID, "byName", byName.ID, "byID", byID.ID, "corrected", corrected.Name)

	config, err := configure(ctx, client, made.ID, "tourist")
	check(err)
	_, err = configure(ctx, client, made.ID, "tourist")
	say("taken", "exists", errors.Is(err, scaleset.RunnerExistsError))
	found, err := client.GetRunner(ctx, config.Runner.ID)
	check(err)
	named, err := client.GetRunnerByName(ctx, "tourist")
	check(err)
	check(client.RemoveRunner(ctx, int64(found.ID)))
	err = client.RemoveRunner(ctx, int64(found.ID))
	say("runners", "id", found.ID, "named", named.ID, "set", found.RunnerScaleSetID, "gone",
		errors.Is(err, scaleset.RunnerNotFoundError))
	check(client.DeleteRunnerScaleSet(ctx, made.ID))
	_, err = client.GetRunnerScaleSetByID(ctx, made.ID)
	say("deleted", "error", text(err))
}

func listen(ctx context.Context, client *scaleset.Client) {
	set, err := client.GetRunnerScaleSet(ctx, 1, *name)
	check(err)
	if set == nil {
		set, err = client.CreateRunnerScaleSet(ctx, spec(1, *name))
		check(err)
	}
	session, err := client.MessageSessionClient(ctx, set.ID, "go", scaleset.WithRetryWaitMax(50*time.Millisecond))
	check(err)
	say("session", "set", set.ID, "id", session.Session().SessionID.String())
	heard, err := listener.New(session, listener.Config{ScaleSetID: set.ID, MaxRunners: *most})
	check(err)
	err = heard.Run(ctx, &scaler{client: client, set: set.ID})
	if closing := session.Close(context.WithoutCancel(ctx)); closing != nil {
		say("unclosed", "error", text(closing))
	} else {
		say("closed")
	}
	if !errors.Is(err, context.Canceled) {
		fail(err)
	}
}

// scaler configures as many runners as there are assigned jobs, and starts none: the test does.
type scaler struct {
	client     *scaleset.Client
	set        int
	lock       sync.Mutex
	configured int
	completed  int
}

func (s *scaler) HandleJobStarted(ctx context.Context, job *scaleset.JobStarted) error {
	say("started", "job", job.JobDisplayName, "runner", job.RunnerName, "run", job.WorkflowRunID)
	return nil
}

func (s *scaler) HandleJobCompleted(ctx context.Context, job *scaleset.JobCompleted) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	if job.RunnerName != "" {
		s.completed++
	}
	say("completed", "job", job.JobDisplayName, "runner", job.RunnerName, "result", job.Result)
	return nil
}

func (s *scaler) HandleDesiredRunnerCount(ctx context.Context, count int) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	say("desired", "count", count)
	for s.configured-s.completed < min(count, *most) {
		s.configured++
		if _, err := configure(ctx, s.client, s.set, fmt.Sprintf("%s-go-%d", *name, s.configured)); err != nil {
			return 0, err
		}
	}
	return count, nil
}

func configure(
	ctx context.Context, client *scaleset.Client, set int, runner string,
) (*scaleset.RunnerScaleSetJitRunnerConfig, error) {
	setting := &scaleset.RunnerScaleSetJitRunnerSetting{Name: runner, WorkFolder: "_work"}
	config, err := client.GenerateJitRunnerConfig(ctx, setting, set)
	if err == nil {
		say("configured", "runner", config.Runner.Name, "id", config.Runner.ID, "config", config.EncodedJITConfig)
	}
	return config, err
}

func spec(group int, name string) *scaleset.RunnerScaleSet {
	return &scaleset.RunnerScaleSet{
		Name: name, RunnerGroupID: group, RunnerSetting: scaleset.RunnerSetting{DisableUpdate: true},
		Labels: []scaleset.Label{{Name: name}},
	}
}

func say(event string, pairs ...any) {
	line := map[string]any{"event": event}
	for i := 0; i < len(pairs); i += 2 {
		line[pairs[i].(string)] = pairs[i+1]
	}
	written, _ := json.Marshal(line)
	fmt.Println(string(written))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	say("failed", "error", text(err))
	os.Exit(1)
}
