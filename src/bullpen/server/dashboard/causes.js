// The causes of a wait and the rules that refuse a candidate, as words.

const warm = (glyph, word) => ({ glyph, tone: "warn", word });
const red = (glyph, word) => ({ glyph, tone: "lost", word });
const calm = (glyph, tone, word) => ({ glyph, tone, word });

export const CAUSES = {
  "run-over": red("failed", "Run over"),
  "no-match": red("refused", "Nothing matches"),
  cap: warm("brake", "Cap reached"),
  "no-capacity": red("refused", "No capacity"),
  booting: calm("created", "created", "Booting"),
  cleaning: calm("cleaning", "cleaning", "Cleaning"),
  "trust-domain": warm("wait", "Trust domain"),
  "image-retired": warm("wait", "Image retired"),
  "runner-lost": red("lost", "Runner lost"),
  "runner-group-closed": red("refused", "Runner group closed"),
  "github-limit": warm("brake", "GitHub limit"),
  "github-outage": red("failed", "GitHub outage"),
  "no-server": red("failed", "No server"),
  paused: warm("pause", "Paused"),
  "queued-behind": calm("queued", "ended", "Queued behind"),
  requirements: warm("wait", "Requirements"),
  unknown: warm("wait", "Unknown"),
};

export const RULES = {
  fits: "fits",
  expired: "its offer has expired",
  "other-class": "belongs to another class",
  "class-size": "is smaller than its class promises",
  "image-retired": "has a retired image",
  "image-newer": "has a newer image than this server knows",
  "usage-class": "is paid for in another way",
  "instance-type": "is of a type that is not allowed",
  cpu: "has too few processors",
  mem: "has too little memory",
  "trust-domain": "was used by another trust domain",
  cleaning: "cleans itself",
  booting: "boots",
  taken: "serves another run",
  occupied: "executes a job of this run",
  starting: "belongs to this run and is not ready yet",
  capability: "lacks a capability",
  avoided: "lost or failed this job before",
  silent: "is silent",
  leaving: "is about to be taken away",
};
