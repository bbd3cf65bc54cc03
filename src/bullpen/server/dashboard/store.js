// What is known of the pool: the records of the event stream, and counts that are kept by difference.

export const GROUPS = ["offer", "cleaning", "running", "claimed", "created", "ended"];
const MOST_OPERATIONS = 500;
const IN_SIGHT = 60_000; // milliseconds
const JUST_BEFORE = 10_000; // milliseconds
const empty = () => ({ offer: 0, cleaning: 0, running: 0, claimed: 0, created: 0, ended: 0 });

export const instances = new Map(); // id → record, with `group` and `trouble` beside what the server sent
export const departed = new Map(); // id → record of a runner that was silent until its end: for a minute, in sight
export const jobs = new Map();
export const operations = new Map();
export const runs = new Map(); // run → set of the ids of its instances
export const runJobs = new Map(); // run → set of the ids of its jobs
export const classes = new Map(); // class → counts by group
export const total = empty();
export const silent = new Map(); // instance → what the status says of its worker, while it misses its lease
export const leases = new Map(); // instance → { deadline, leaseSeconds, heartbeatAt }
export const touched = new Set(); // ids of instances that changed since the last drawing
export const news = { domains: [], trouble: "", whole: false, members: 0, revision: 0, updatedAt: 0 };

let generation = 0;
const watchers = new Set();

/** Tell `watcher` whenever something changed; many changes between two frames are one. */
export function watch(watcher) {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

let asked = false;
export function changed() {
  news.revision++;
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    for (const watcher of [...watchers]) watcher();
    touched.clear();
  });
}

/** A new stream begins with everything that there is: what it does not name again is gone. */
export function begin() {
  generation++;
  news.whole = false;
}

export function whole() {
  for (const map of [instances, jobs])
    for (const [id, one] of map) if (one.generation !== generation) forget(map === instances ? "instance" : "job", id);
  news.whole = true;
  news.updatedAt = Date.now();
  changed();
}

export function take(kind, data) {
  news.updatedAt = Date.now();
  if (kind === "instance") takeInstance(data);
  else if (kind === "job") takeJob(data);
  else if (kind === "operation") takeOperation(data);
  else if (kind === "workers") news.domains = data.workers;
  else if (kind === "gone") forget(data.kind, data.id);
  else if (kind === "silent") return takeSilent(data.workers);
  else if (kind === "leases") for (const one of data.leases) takeLease(one);
  if (kind !== "operation") news.trouble = kind === "trouble" ? data.reason : ""; // operations are not read from the store
  changed();
}

export function takeLease(data) {
  leases.set(data.instanceId, data);
  touched.add(data.instanceId);
}

/** All workers that are silent now. */
export function takeSilent(list) {
  const before = new Map(silent);
  silent.clear();
  for (const one of list) if (one.instanceId) silent.set(one.instanceId, one);
  for (const id of new Set([...before.keys(), ...silent.keys()])) {
    const record = instances.get(id);
    if (!record) continue;
    const trouble = troubleOf(record);
    if (trouble !== record.trouble || before.get(id)?.heartbeatAt !== silent.get(id)?.heartbeatAt) {
      if (record.trouble === "suspect" || record.trouble === "lost") record.silentAt = Date.now();
      record.trouble = trouble;
      touched.add(id);
    }
  }
  changed();
}

function takeInstance(data) {
  const before = instances.get(data.id);
  data.generation = generation;
  data.group = groupOf(data);
  data.silentAt = before?.silentAt;
  data.wasSilent = data.state === "terminated" && Boolean(before) && (before.wasSilent || isSilent(before));
  data.trouble = troubleOf(data);
  if (before) counted(before, -1);
  counted(data, 1);
  if (!before || before.runId !== data.runId) {
    if (before) unlinked(runs, before.runId, data.id);
    linked(runs, data.runId, data.id);
  }
  data.heartbeatAt ??= before?.heartbeatAt ?? null;
  instances.set(data.id, data);
  if (!before) news.members++;
  touched.add(data.id);
}

/** The server does not say when it forgets an operation that has ended: of those, the last ones are kept. */
function takeOperation(data) {
  operations.delete(data.id);
  operations.set(data.id, data); // in the order in which they changed
  if (operations.size <= MOST_OPERATIONS) return;
  for (const [id, one] of operations) if (one.state !== "running") return operations.delete(id);
}

function takeJob(data) {
  data.generation = generation;
  if (!jobs.has(data.id)) linked(runJobs, data.runId, data.id);
  jobs.set(data.id, data);
}

function forget(kind, id) {
  if (kind === "instance") {
    const before = instances.get(id);
    if (!before) return;
    counted(before, -1);
    unlinked(runs, before.runId, id);
    instances.delete(id);
    if (before.wasSilent || isSilent(before)) keepInSight(before);
    leases.delete(id);
    silent.delete(id);
    news.members++;
    touched.add(id);
  } else if (kind === "job") {
    const before = jobs.get(id);
    if (before) unlinked(runJobs, before.runId, id);
    jobs.delete(id);
  }
}

/** A runner that was lost does not vanish from under the eyes of an operator in the moment in which it turns red. */
function keepInSight(one) {
  departed.set(one.id, { ...one, state: "terminated", group: "ended", trouble: "lost" });
  setTimeout(() => {
    departed.delete(one.id);
    touched.add(one.id);
    changed();
  }, IN_SIGHT);
}

function counted(record, by) {
  const name = record.resourceClass;
  if (!classes.has(name)) classes.set(name, empty());
  classes.get(name)[record.group] += by;
  total[record.group] += by;
}

function linked(map, run, id) {
  if (!run) return;
  if (!map.has(run)) map.set(run, new Set());
  map.get(run).add(id);
}

function unlinked(map, run, id) {
  const set = map.get(run);
  if (set?.delete(id) && set.size === 0) map.delete(run);
}

export function groupOf(one) {
  if (one.state === "idle") return one.attested ? "offer" : "cleaning";
  return { created: "created", claimed: "claimed", running: "running" }[one.state] || "ended";
}

/** Also just before: that a worker was given up may be heard before the end of its instance. */
const isSilent = (one) => one.trouble === "suspect" || one.trouble === "lost" || Date.now() - one.silentAt < JUST_BEFORE;

/** What makes an operator look: "lost", "suspect" or "leaving"; empty if nothing does. The worker of an instance that is
    ended falls silent, and that is no trouble, unless it was silent before. */
function troubleOf(one) {
  if (one.state === "terminated") return one.wasSilent ? "lost" : "";
  const worker = silent.get(one.id);
  if (worker) return worker.state === "active" ? "suspect" : "lost";
  return one.leavingAt ? "leaving" : "";
}
