//! A turn as a directory in the sandbox: started, told things, followed and killed over any sandbox.
//!
//! The run depends on nobody once it is started. Nothing here may ever start a second agent for the same turn, nor put
//! a secret where a list, a log, a file or a process list shows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};

use crate::domain::ids::{AccountId, MessageId, ThreadId, TurnId};
use crate::sandbox::{Confinement, Done, Exec, Probe, Sandbox, SandboxError, Target, shell};

/// The runner, the same for every sandbox.
const RUNNER: &str = include_str!("run.sh");
/// Bytes of the stream that one look gives at most.
pub const CHUNK: usize = 256 * 1024;
/// How long one look waits inside the sandbox.
const WAIT: Duration = Duration::from_secs(20);
/// How long a short command may take.
const SHORT: Duration = Duration::from_secs(30);
/// Exit codes by which the start tells why it did not.
const NO_AGENT: i32 = 41;
const NO_WORKDIR: i32 = 42;
const NOT_ALONE: i32 = 43;

/// Variables for texts that may be larger than one variable: 1 MiB for lines, less for the others. Together they stay
/// below the 2 MiB that Linux gives to arguments and environment.
const LINE: [&str; 12] = [
    "F0", "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11",
];
const SETTINGS: [&str; 1] = ["S0"];
const PROMPT: [&str; 2] = ["M0", "M1"];
const LAUNCH: [&str; 2] = ["G0", "G1"];

/// Starts a run, or finds it started. The lock passes from here to the runner without a gap; a second start either
/// waits for the first one's outcome or sees the lock held by the runner. An earlier run of the chat that still goes on
/// is named and nothing is started: two agents must not work in one conversation.
pub(super) const START: &str = r#"mask=$(umask); umask 077
take DIR WORK MAKE PROG CEILING RUN
home=$PWD
mkdir -p -- "$DIR" && cd -- "$DIR" && exec 9>>lock || exit 1
n=0
until flock -n 9; do
  [ ! -s pid ] || exit 0
  n=$((n + 1)); [ $n -lt 100 ] || exit 1; sleep 0.1
done
[ ! -e exit ] || exit 0
[ ! -e pid ] || { [ ! -s out.jsonl ] && [ ! -e again ]; } || exit 0
others=
for other in ../*; do
  [ "$other" = "../${PWD##*/}" ] || [ -e "$other/exit" ] || [ ! -e "$other/lock" ] \
    || flock -n -s "$other/lock" true || others="$others ${other#../}"
done
[ -z "$others" ] || { echo "$others"; exit 43; }
case $PROG in
  */*) [ -f "$PROG" ] && [ -x "$PROG" ] || exit 41;;
  *) command -v "$PROG" >/dev/null || exit 41;;
esac
why=$(cd -- "$home" && { [ "$MAKE" = no ] || mkdir -p -- "$WORK"; } 2>&1 && cd -- "$WORK" 2>&1 \
  && { [ -w . ] || ! echo 'it is not writable'; }) || { printf %s "$why" | tail -c 300; exit 42; }
[ ! -e pid ] || : >again || exit 1
all S >settings.json && all M >prompt.md && inn SCRIPT >run.sh && : >>out.jsonl || exit 1
if [ ! -e in.jsonl ]; then
  { printf 'first\t' && all F && echo; } >in.new && mv -f in.new in.jsonl || exit 1
fi
[ -e start ] || : >start || exit 1
all G | {
  for n in $(env | sed -n 's/^\(LC_INN_[A-Z0-9]*\)=.*/\1/p'); do unset "$n"; done
  umask "$mask"
  INNKEEPER_RUN=$RUN exec setsid -f sh run.sh "$CEILING" >/dev/null 2>&1
}
"#;

/// Appends one line, whole, unless one of that id is there. A line that was cut by a crash is ended first; the runner
/// passes on only lines that are whole.
pub(super) const SAY: &str = r#"take DIR ID
cd -- "$DIR" && [ -e in.jsonl ] || exit 44
exec 7>>in.jsonl && flock -w 10 7 || exit 1
if [ "$ID" = end ]; then ! grep -q '^end$' in.jsonl || exit 0
else ! grep -q "^$ID$(printf '\t'){.*}\$" in.jsonl || exit 0; fi
[ -z "$(tail -c 1 in.jsonl)" ] || echo >&7
umask 077
if [ "$ID" = end ]; then echo end >in.more
else { printf '%s\t' "$ID" && all F && echo; } >in.more; fi || exit 1
cat in.more >&7
"#;

/// Waits until the stream is longer than AT, the run's lock is free, or the time is up; then prints `state code size`
/// and the bytes after AT. Both waits are woken by the kernel: `tail -f` by inotify, `flock` by the lock's release.
/// No `timeout` stands around `tail`: with one, ended while it was starting, the wait sometimes hung for good on a busy
/// machine (seen with coreutils 9.1, not without it in 1500 tries).
pub(super) const FOLLOW: &str = r#"take DIR AT WAIT MOST
cd -- "$DIR" 2>/dev/null && [ -e lock ] || { echo 'absent - 0'; exit 0; }
state() {
  if ! flock -n -s lock true; then echo running; elif [ -e pid ]; then echo ended; else echo absent; fi
}
size() { stat -c %s out.jsonl 2>/dev/null || echo 0; }
now=$(state); size=$(size)
if [ "$now" = running ] && [ "$size" -eq "$AT" ] && [ "$WAIT" -gt 0 ]; then
  [ -e out.jsonl ] || sleep 0.1
  sh -c 'echo $$; exec tail -c "+$1" -s 0.2 -f out.jsonl' sh "$((AT + 1))" 2>/dev/null | {
    read -r waiter
    sh -c 'flock -s -w "$1" lock true & held=$!; trap "kill $held" TERM; wait $held; kill "$2"' \
      sh "$WAIT" "$waiter" >/dev/null 2>&1 & watcher=$!
    head -c 1 >/dev/null
    kill "$waiter" "$watcher" 2>/dev/null
  }
  # Lets what belongs together gather.
  sleep 0.1
  now=$(state); size=$(size)
fi
code=-; [ "$now" != ended ] || [ ! -f exit ] || read -r code <exit
echo "$now $code $size"
[ "$size" -le "$AT" ] || tail -c "+$((AT + 1))" out.jsonl | head -c "$MOST"
"#;

/// Notes that a killed run ended, so that no late start takes it up again.
const BURY: &str = r#"take DIR
cd -- "$DIR" 2>/dev/null || exit 0
[ -e exit ] || { echo 137 >exit.new && mv -f exit.new exit; }
"#;

/// Reads the end of what the agent wrote beside its stream. A link in its place is not followed.
const COMPLAINT: &str = r#"take DIR
cd -- "$DIR" 2>/dev/null || exit 0
[ -h err.log ] || [ ! -f err.log ] || tail -c 2000 err.log
"#;

/// Names one run. All paths begin with `~/`; [`absolute`] makes absolute ones of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The sandbox user it runs as.
    pub account: AccountId,
    /// The chat.
    pub thread: ThreadId,
    /// The turn.
    pub turn: TurnId,
    /// Which run of the turn, from 0: a session that could not be used is replaced in a second run.
    pub attempt: u8,
}

impl Run {
    /// Returns the directory of the run.
    pub fn directory(&self) -> String {
        format!("~/.innkeeper/chats/{}/turns/{}", self.thread, self.name())
    }

    fn name(&self) -> String {
        match self.attempt {
            0 => self.turn.to_string(),
            again => format!("{}.{again}", self.turn),
        }
    }

    /// Returns the run of the same chat that has this name.
    fn other(&self, name: &str) -> Option<Run> {
        let (turn, attempt) = name.split_once('.').unwrap_or((name, "0"));
        Some(Run {
            turn: TurnId(turn.parse().ok()?),
            attempt: attempt.parse().ok()?,
            ..self.clone()
        })
    }

    /// Returns the agent's own directory of this chat: its sessions, shared with no other chat.
    pub fn config(&self) -> String {
        format!("~/.innkeeper/chats/{}/config", self.thread)
    }

    /// Returns the file that [`Start::settings`] is written to.
    pub fn settings(&self) -> String {
        format!("{}/settings.json", self.directory())
    }

    /// Returns the file that [`Start::system_prompt`] is written to.
    pub fn system_prompt(&self) -> String {
        format!("{}/prompt.md", self.directory())
    }

    /// Returns the directory of what people attached to a message.
    pub fn inbox(&self, message: MessageId) -> String {
        format!("{}/{message}", self.inboxes())
    }

    /// Returns the directory that holds all inboxes of the chat.
    pub fn inboxes(&self) -> String {
        format!("~/io/{}/in", self.thread)
    }

    /// Returns the directory of what the agent wants delivered.
    pub fn outbox(&self) -> String {
        format!("~/io/{}/out", self.thread)
    }

    /// Returns the chat's directory for temporary files.
    pub fn tmp(&self) -> String {
        format!("~/io/{}/tmp", self.thread)
    }

    /// Returns what every process of the run carries as `INNKEEPER_RUN`.
    pub fn mark(&self) -> String {
        format!("{}-{}", self.thread, self.name())
    }
}

/// Makes an absolute path of one that may begin with `~`.
pub fn absolute(home: &str, path: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => path.to_owned(),
    }
}

/// What a run is started with.
#[derive(Debug)]
pub struct Start {
    /// Where the agent works: absolute or `~/…`.
    pub workdir: String,
    /// Whether the directory is made if it is missing.
    pub make_workdir: bool,
    /// The agent's program and its arguments. Arguments show in the process list, so they hold nothing secret.
    pub argv: Vec<String>,
    /// The agent's environment beside `HOME`, `PATH` and the like.
    pub env: Vec<(String, String)>,
    /// Secret parts of its environment.
    pub secrets: Vec<(String, SecretString)>,
    /// The text of its settings file.
    pub settings: String,
    /// The text of its system prompt file.
    pub system_prompt: String,
    /// The first line that it is told: one line of JSON.
    pub first_line: String,
    /// How long the run may take, even if nobody watches; then it gets SIGINT and ends with code 124.
    pub ceiling: Duration,
}

/// Why a run was not started.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StartError {
    /// The agent's program is not there.
    #[error("the agent's program is missing in the sandbox")]
    AgentMissing,
    /// The directory to work in is missing or not writable; what the system said.
    #[error("the workspace cannot be used: {0}")]
    Workspace(String),
    /// These earlier runs of the chat still go on.
    #[error("earlier runs of the chat still go on: {0:?}")]
    NotAlone(Vec<Run>),
    /// The sandbox failed; it may have started the run nevertheless, and starting again is safe.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// It goes on.
    Running,
    /// It is over, and nothing of its stream is left to read. `None`: it left no exit code.
    Ended(Option<i32>),
    /// It was never started.
    Absent,
}

/// What one look at a run gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// How far the stream is read with these bytes.
    pub offset: u64,
    /// The bytes after the offset that was asked for, exact; at most 256 KiB.
    pub bytes: Bytes,
    /// How the run stands.
    pub state: RunState,
    /// Whether the stream is shorter than what was read of it: somebody changed it.
    pub shrank: bool,
}

/// Starts, feeds, follows and kills runs.
#[derive(Debug)]
pub struct TurnDirectory {
    sandbox: Arc<dyn Sandbox>,
    probes: Mutex<HashMap<AccountId, Probe>>,
}

impl TurnDirectory {
    /// Returns the hand that works in this sandbox.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> TurnDirectory {
        TurnDirectory {
            sandbox,
            probes: Mutex::new(HashMap::new()),
        }
    }

    /// Starts a run. Safe to repeat: a run that was started is found, whether it goes on or is over. One whose
    /// process is gone before it said anything is tried anew, once.
    pub async fn start(&self, run: &Run, start: &Start) -> Result<(), StartError> {
        let launch = launch(run, start)?;
        let agent = start.argv.first().cloned().unwrap_or_default();
        if start.first_line.contains('\n') {
            return Err(failed("the first line has a line break in it").into());
        }
        let make = if start.make_workdir { "yes" } else { "no" };
        let mut vars = vec![
            ("DIR", shell::path(&run.directory())?.into_bytes()),
            ("WORK", shell::path(&start.workdir)?.into_bytes()),
            ("MAKE", make.into()),
            ("PROG", agent.into_bytes()),
            ("CEILING", start.ceiling.as_secs().max(1).to_string().into()),
            ("RUN", run.mark().into_bytes()),
            ("SCRIPT", RUNNER.into()),
        ];
        spread(&mut vars, &SETTINGS, &start.settings, "settings")?;
        spread(&mut vars, &PROMPT, &start.system_prompt, "system prompt")?;
        spread(
            &mut vars,
            &LAUNCH,
            &launch,
            "environment with the arguments",
        )?;
        spread(&mut vars, &LINE, &start.first_line, "request")?;
        let done = self.run(&run.account, START, vars, SHORT, 4096).await?;
        match done.code {
            0 => Ok(()),
            NO_AGENT => Err(StartError::AgentMissing),
            NO_WORKDIR => {
                let said = String::from_utf8_lossy(&done.out).trim().to_owned();
                Err(StartError::Workspace(format!("{}: {said}", start.workdir)))
            }
            NOT_ALONE => {
                let said = String::from_utf8_lossy(&done.out);
                let others = said.split_whitespace().filter_map(|name| run.other(name));
                Err(StartError::NotAlone(others.collect()))
            }
            // A shell that was ended from outside may have come as far as the start.
            code if code > 128 => Err(SandboxError::Away(format!(
                "the start was interrupted (exit code {code})"
            ))
            .into()),
            code => Err(failed(&format!("the run could not be started (exit code {code})")).into()),
        }
    }

    /// Tells the agent one more line of JSON, unless it was told one of that id before.
    pub async fn say(&self, run: &Run, id: &str, line: &str) -> Result<(), SandboxError> {
        if line.contains('\n') {
            return Err(failed("a line with a line break in it"));
        }
        let mut vars = vec![("ID", safe_id(id).into_bytes())];
        spread(&mut vars, &LINE, line, "line")?;
        self.append(run, vars).await
    }

    /// Tells the agent that nothing more comes: it ends after its turn.
    pub async fn close_input(&self, run: &Run) -> Result<(), SandboxError> {
        self.append(run, vec![("ID", b"end".to_vec())]).await
    }

    async fn append(
        &self,
        run: &Run,
        mut vars: Vec<(&'static str, Vec<u8>)>,
    ) -> Result<(), SandboxError> {
        vars.push(("DIR", shell::path(&run.directory())?.into_bytes()));
        match self.run(&run.account, SAY, vars, SHORT, 1024).await?.code {
            0 => Ok(()),
            44 => Err(SandboxError::Gone(run.directory())),
            code => Err(failed(&format!(
                "a line could not be added (exit code {code})"
            ))),
        }
    }

    /// Waits, 20 s at most, until the run's stream is longer than `offset` or the run is over, and reads on.
    pub async fn follow(&self, run: &Run, offset: u64) -> Result<Chunk, SandboxError> {
        self.look(run, offset, WAIT, CHUNK).await
    }

    /// Reads what the run's stream holds after `offset` by now.
    pub async fn read(&self, run: &Run, offset: u64) -> Result<Chunk, SandboxError> {
        self.look(run, offset, Duration::ZERO, CHUNK).await
    }

    /// Returns how a run stands, without waiting and without reading.
    pub async fn state(&self, run: &Run) -> Result<RunState, SandboxError> {
        Ok(self.look(run, 0, Duration::ZERO, 0).await?.state)
    }

    /// Returns the end of what the agent wrote beside its stream; nothing if it wrote nothing.
    pub async fn complaint(&self, run: &Run) -> Result<String, SandboxError> {
        let vars = vec![("DIR", shell::path(&run.directory())?.into_bytes())];
        let done = self.run(&run.account, COMPLAINT, vars, SHORT, 4096).await?;
        Ok(String::from_utf8_lossy(&done.out).into_owned())
    }

    async fn look(
        &self,
        run: &Run,
        offset: u64,
        wait: Duration,
        most: usize,
    ) -> Result<Chunk, SandboxError> {
        let vars = vec![
            ("DIR", shell::path(&run.directory())?.into_bytes()),
            ("AT", offset.to_string().into()),
            ("WAIT", wait.as_secs().to_string().into()),
            ("MOST", most.to_string().into()),
        ];
        let done = self
            .run(&run.account, FOLLOW, vars, WAIT + SHORT, CHUNK + 1024)
            .await?;
        if done.code != 0 {
            return Err(SandboxError::Away(format!(
                "the look at the run was interrupted (exit code {})",
                done.code
            )));
        }
        chunk(offset, &done.out)
            .ok_or_else(|| SandboxError::Away("the look at the run gave nonsense".to_owned()))
    }

    /// Kills whatever is left of a run; `alone`: everything of its account, which then has no other run.
    pub async fn kill(&self, run: &Run, alone: bool) -> Result<(), SandboxError> {
        let target = Target {
            directory: run.directory(),
            mark: run.mark(),
            alone,
        };
        self.sandbox.kill(&run.account, &target).await?;
        let vars = vec![("DIR", shell::path(&run.directory())?.into_bytes())];
        self.run(&run.account, BURY, vars, SHORT, 1024).await?;
        Ok(())
    }

    /// Returns what the sandbox tells about an account. Asked once; as long as confinement does not work, each time.
    pub async fn probe(&self, account: &AccountId) -> Result<Probe, SandboxError> {
        if let Some(known) = self.known(account) {
            return Ok(known);
        }
        let probe = self.sandbox.probe(account).await?;
        if probe.confinement == Confinement::Works {
            self.probes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(account.clone(), probe.clone());
        }
        Ok(probe)
    }

    fn known(&self, account: &AccountId) -> Option<Probe> {
        self.probes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(account)
            .cloned()
    }

    async fn run(
        &self,
        account: &AccountId,
        script: &str,
        vars: Vec<(&'static str, Vec<u8>)>,
        limit: Duration,
        most: usize,
    ) -> Result<Done, SandboxError> {
        let exec = Exec {
            script: shell::script(script),
            vars,
            limit,
            most,
        };
        self.sandbox.exec(account, exec).await
    }
}

fn failed(why: &str) -> SandboxError {
    SandboxError::Failed(why.to_owned())
}

/// Puts a text into as many variables as it needs.
fn spread(
    vars: &mut Vec<(&'static str, Vec<u8>)>,
    names: &[&'static str],
    text: &str,
    what: &str,
) -> Result<(), SandboxError> {
    let most = names.len() * shell::PIECE;
    if text.len() > most {
        return Err(SandboxError::Failed(format!(
            "the {what} has {} bytes, and {most} is the most",
            text.len()
        )));
    }
    let pieces = text.as_bytes().chunks(shell::PIECE).map(<[u8]>::to_vec);
    vars.extend(names.iter().copied().zip(pieces));
    Ok(())
}

/// Returns the shell text that becomes the agent. The mark comes last: nobody may take it off.
fn launch(run: &Run, start: &Start) -> Result<String, SandboxError> {
    let workdir = shell::path(&start.workdir)?;
    let mut text = String::new();
    let open = start.env.iter().map(|(name, value)| (name, value.as_str()));
    let secret = start
        .secrets
        .iter()
        .map(|(name, value)| (name, value.expose_secret()));
    for (name, value) in open.chain(secret) {
        if !is_name(name) || value.contains('\0') {
            // The value is not told: it may be a secret.
            return Err(SandboxError::Failed(format!(
                "{name:?} cannot be an environment variable: it needs a name of letters, digits and _, and a value \
                 without NUL"
            )));
        }
        text.push_str(&format!("export {name}={}\n", shell::quote(value)));
    }
    if start.argv.is_empty() || start.argv.iter().any(|word| word.contains('\0')) {
        return Err(failed(
            "the agent's arguments are empty or have a NUL in them",
        ));
    }
    let argv: Vec<String> = start.argv.iter().map(|word| shell::quote(word)).collect();
    text.push_str(&format!(
        "export INNKEEPER_RUN={}\ncd && cd -- {} || exit 125\nexec {}\n",
        shell::quote(&run.mark()),
        shell::quote(&workdir),
        argv.join(" ")
    ));
    Ok(text)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Spells an id so that it can stand before a tab and in a pattern; `first` and `end` stay ours.
fn safe_id(id: &str) -> String {
    let mut text = String::from("m-");
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("_{byte:02x}"));
        }
    }
    text
}

/// Reads the header and the bytes of a look.
fn chunk(asked: u64, out: &Bytes) -> Option<Chunk> {
    let end = out.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&out[..end]).ok()?;
    let bytes = out.slice(end + 1..);
    let mut words = header.split(' ');
    let (state, code, size) = (words.next()?, words.next()?, words.next()?);
    let size: u64 = size.parse().ok()?;
    let offset = asked + bytes.len() as u64;
    let state = match state {
        "absent" => RunState::Absent,
        // Over, but not read to the end.
        "ended" if offset < size => RunState::Running,
        "ended" => RunState::Ended(code.parse().ok()),
        "running" => RunState::Running,
        _ => return None,
    };
    Some(Chunk {
        offset,
        bytes,
        shrank: size < asked && state != RunState::Absent,
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            account: AccountId("k3x9".to_owned()),
            thread: ThreadId(7),
            turn: TurnId(8),
            attempt: 0,
        }
    }

    fn start() -> Start {
        Start {
            workdir: "~/chat-7".to_owned(),
            make_workdir: true,
            argv: vec!["agent".to_owned(), "it's; $(x)".to_owned()],
            env: vec![("INNKEEPER_RUN".to_owned(), "other".to_owned())],
            secrets: vec![("TOKEN".to_owned(), "a'b".into())],
            settings: "{}".to_owned(),
            system_prompt: String::new(),
            first_line: "{}".to_owned(),
            ceiling: Duration::from_secs(9),
        }
    }

    #[test]
    fn the_launch_quotes_everything_and_ends_with_our_mark() {
        insta::assert_snapshot!(launch(&run(), &start()).unwrap(), @r"
        export INNKEEPER_RUN='other'
        export TOKEN='a'\''b'
        export INNKEEPER_RUN='7-8'
        cd && cd -- './chat-7' || exit 125
        exec 'agent' 'it'\''s; $(x)'
        ");
    }

    #[test]
    fn a_name_that_is_no_name_is_refused_without_telling_the_value() {
        for name in ["", "A B", "1A", "A=B", "A;x"] {
            let mut start = start();
            start.secrets = vec![(name.to_owned(), "hush-hush".into())];
            let error = launch(&run(), &start).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn different_ids_stay_different_and_are_safe_in_a_pattern() {
        let ids = ["", "end", "a.b", "a_b", "a*b", "a\tb", "a\nb", "ä", "a_2eb"];
        let safe: std::collections::HashSet<String> = ids.iter().map(|id| safe_id(id)).collect();
        assert_eq!(safe.len(), ids.len());
        for id in safe {
            assert!(
                id.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
                "{id}"
            );
            assert!(id != "end" && id != "first");
        }
    }

    #[test]
    fn a_look_is_over_only_when_everything_was_read() {
        for (out, offset, state, shrank) in [
            ("running - 3\nabc", 13, RunState::Running, true),
            ("running - 13\nabc", 13, RunState::Running, false),
            ("ended 0 14\nabc", 13, RunState::Running, false),
            ("ended 7 13\nabc", 13, RunState::Ended(Some(7)), false),
            ("ended - 10\n", 10, RunState::Ended(None), false),
            ("ended 0 4\n", 10, RunState::Ended(Some(0)), true),
            ("absent - 0\n", 10, RunState::Absent, false),
        ] {
            let chunk = chunk(10, &Bytes::from_static(out.as_bytes())).unwrap();
            assert_eq!(
                (chunk.offset, chunk.state, chunk.shrank),
                (offset, state, shrank),
                "{out:?}"
            );
        }
        for nonsense in ["", "running", "running - x\n", "odd - 3\n"] {
            assert_eq!(
                chunk(0, &Bytes::from_static(nonsense.as_bytes())),
                None,
                "{nonsense:?}"
            );
        }
    }

    #[test]
    fn paths_of_a_run_lie_where_the_agent_may_and_may_not_look() {
        let run = run();
        assert!(run.directory().starts_with("~/.innkeeper/"));
        assert!(run.config().starts_with("~/.innkeeper/"));
        assert!(run.inbox(MessageId(3)).starts_with("~/io/7/in/"));
        assert_eq!(absolute("/home/a", &run.outbox()), "/home/a/io/7/out");
        assert_eq!(absolute("/home/a", "/srv/x"), "/srv/x");
        assert_eq!(absolute("/home/a", "~x"), "~x");
    }
}
