"""The bounds of what may be asked, each once with its reason. Settings, command line, HTTP API and action share them.

Standard library only: a step of a workflow that asks a server has nothing else. A pattern matches the whole text: use
it with `re.fullmatch`, or `whole()` it for msgspec, which searches.
"""

# ---- runs

RUN_ID_LENGTH = 128  # characters: a run id is also a label at the CI
SET_PREFIX = "set:"
SESSION_PREFIX = "session:"
REPOSITORY_PREFIX = "repository:"
PAUSE_PREFIX = "pause:"
ROTATION_PREFIX = "rotation:"
RESERVED = (SET_PREFIX, SESSION_PREFIX, REPOSITORY_PREFIX, PAUSE_PREFIX, ROTATION_PREFIX)
"""Beginnings of the ids of scale sets, which are also run ids, of their sessions, of repositories, of pauses and of
rotations: all stories are found by id alone."""
DOTS = (".", "..")  # clients and proxies take them out of the paths of requests
NOT_RESERVED = f"not begin with {', '.join(RESERVED[:-1])} or {RESERVED[-1]}"
ATTEMPTS = 9999  # of a workflow run, as its page numbers them
RUNTIME_MINUTES = 7 * 24 * 60  # no job of a CI system lasts longer than a week
USUAL_JOB_SECONDS = 6 * 3600  # GitHub ends a job that sets no limit of its own after six hours
WAIT_SECONDS = USUAL_JOB_SECONDS  # for room under a cap: the job that waits lasts no longer
COUNT = 1000  # runners of one provision: more is a typing error, not a run
IDEMPOTENCY_KEY_LENGTH = 128  # characters; a random key has 32

OWNER = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}(_[A-Za-z0-9]{1,8})?"  # of a repository; enterprises add a short code
REPOSITORY = rf"{OWNER}/[A-Za-z0-9._-]{{1,100}}"
REPOSITORY_ID_DIGITS = 18  # GitHub's ids have ten; what is longer may not fit into 64 bits
REPOSITORY_ID = rf"[1-9][0-9]{{0,{REPOSITORY_ID_DIGITS - 1}}}"
TRUST_DOMAIN = r"[A-Za-z0-9][A-Za-z0-9._/#-]{0,199}"  # a name of the operator's, or derived from a repository's
TRUST_DOMAIN_ALLOWED = "1 to 200 letters, digits and . _ - / #, the first a letter or digit"

# ---- machines

CLASS_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"  # of a resource class: it is part of a queue's name and of a label
CLASS_NAME_ALLOWED = "1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit"
CLASS_NAME_LENGTH = 63
SET_NAME = CLASS_NAME  # of a scale set: it is a label at the CI
CPU = 1024  # processors; more is a typing error, not a runner
MEM = 32 * 1024 * 1024  # MiB, which are 32 TiB; more is a typing error, not a runner
TYPE_PATTERNS = 400  # what EC2 takes as AllowedInstanceTypes
TYPE_PATTERN = r"[A-Za-z0-9.*_-]{1,30}"
TYPE_PATTERN_ALLOWED = "1 to 30 letters, digits, dots, dashes and *"

# ---- jobs

COMMAND_WORDS = 256
COMMAND_BYTES = 32 * 1024  # of all words: a record stays small, and a script belongs in a file
JOB_NAME_LENGTH = 128  # characters
JOB_INDEX = 1_000_000  # far above the jobs of any run
CAPABILITY_LENGTH = 63  # characters
CAPABILITIES = 64  # of one worker
ARTIFACT_PATTERNS = 20
ARTIFACT_PATTERN_LENGTH = 256  # characters
POSTPONE_SECONDS = 300  # that a job is kept for one runner: its run asks again, and if that dies, the job is free then
JOB_TIMEOUT = (1, 5 * 24 * 3600)  # seconds; GitHub ends a job on a self-hosted runner after five days

# ---- pages and numbers

PAGE = 1000  # entries of a list over HTTP: one answer stays below a megabyte
CLI_PAGE = 10_000  # entries of a list on the command line, which reads the store itself
NUMBER = 2**53  # the largest whole number that every JSON parser reads exactly
KEY_LENGTH = 128  # characters of a worker's key
SUBJECT_LENGTH = 256  # characters of an id that is asked about: the longest, of a repository, has about 160

# ---- what operators do

NOTE_LENGTH = 500  # characters of a note: `status` shows it whole
DRAINED_AT_ONCE = 1000  # instances that one request names: as many as a page of them has

# ---- queues

DELAY_SECONDS = 900  # that a ticket is delayed: SQS delays none for longer

# ---- what agents and jobs send

ROUND_LENGTH = 64  # characters; the control plane draws 16
BEATS = 1000  # heartbeats in one request
RETRIES = 100  # of a job that failed, by `bullpen run`
REASON_LENGTH = 2000  # characters that are kept of a reason: why a job ended, the last lines of a script that failed
SIGNAL_TEXT_LENGTH = 8000  # characters: the end of a log, of which the record keeps less
EXIT_CODES = (-255, 2**31)  # negative: the signal that ended the process
LOG_CHUNK = 256 * 1024  # bytes of a log in one request
PROOF_HEADER_LENGTH = 512  # characters of an Authorization header that AWS signed
PROOF_DATE_LENGTH = 16  # characters: 20260131T120000Z
SESSION_TOKEN_LENGTH = 4096  # characters: those of AWS have one or two thousand
TOKEN_LENGTH = 256  # characters of an operator's token: ours have 85
OIDC_TOKEN_LENGTH = 8192  # characters: GitHub's have about two thousand
POLL_SECONDS = 25  # of a long poll: below the minute after which proxies give up on a silent connection


def whole(pattern: str) -> str:
    """A pattern that matches the whole text wherever it is searched for."""
    return rf"^({pattern})\Z"


def is_word(text: str, longest: int) -> bool:
    """Whether a text is 1 to `longest` printable characters without spaces, as ids, labels and capabilities are."""
    return 1 <= len(text) <= longest and text.isprintable() and " " not in text


def is_run_id(text: str) -> bool:
    """Whether a run may have this id. Those of scale sets are reserved: their runners belong to no run."""
    return is_word(text, RUN_ID_LENGTH) and not text.startswith(RESERVED) and text not in DOTS


def is_note(text: str) -> bool:
    """Whether a note is one line of printable characters: it is shown in terminals, logs and pages."""
    return len(text) <= NOTE_LENGTH and text.isprintable()


NOTE_ALLOWED = f"one line of at most {NOTE_LENGTH} printable characters"


def run_id_allowed() -> str:
    return f"{word_allowed(RUN_ID_LENGTH)}, must not be {' or '.join(DOTS)}, and must {NOT_RESERVED}"


def word_allowed(longest: int) -> str:
    return f"1 to {longest} printable characters without spaces"
