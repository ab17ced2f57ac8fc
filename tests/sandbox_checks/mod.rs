//! What every sandbox promises, checked the same way for each of them.

#![expect(unreachable_pub, reason = "shared by several test programs")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use innkeeper::domain::ids::{AccountId, MessageId, ThreadId, TurnId};
use innkeeper::domain::project::Collect;
use innkeeper::driver::produced::Produced;
use innkeeper::driver::turn_directory::{
    Chunk, Run, RunState, Start, StartError, TurnDirectory, absolute,
};
use innkeeper::sandbox::{Done, Exec, Sandbox, SandboxError};

/// A sandbox under test.
#[derive(Clone)]
pub struct Place {
    pub sandbox: Arc<dyn Sandbox>,
    pub account: AccountId,
    /// Whether the account shares its Unix user and its view of processes with nobody.
    pub own: bool,
}

/// How long a check waits for what it wants to see.
const PATIENCE: Duration = Duration::from_secs(60);

impl Place {
    pub async fn exec(&self, script: &str) -> Result<Done, SandboxError> {
        let exec = Exec {
            script: script.to_owned(),
            vars: vec![],
            limit: Duration::from_secs(30),
            most: 8 << 20,
        };
        self.sandbox.exec(&self.account, exec).await
    }

    pub async fn text(&self, script: &str) -> String {
        let done = self.exec(script).await.unwrap();
        assert_eq!(done.code, 0, "{script}");
        String::from_utf8(done.out.to_vec()).unwrap()
    }

    pub fn turns(&self) -> TurnDirectory {
        TurnDirectory::new(self.sandbox.clone())
    }

    /// Returns a run that nobody has used yet.
    pub fn run(&self) -> Run {
        Run {
            account: self.account.clone(),
            thread: ThreadId(rand::random::<u32>().into()),
            turn: TurnId(rand::random::<u32>().into()),
            attempt: 0,
        }
    }

    /// Reads a run's stream from `offset` to its end.
    pub async fn rest(&self, run: &Run, mut offset: u64) -> (Vec<u8>, Option<i32>) {
        let turns = self.turns();
        let mut bytes = Vec::new();
        let began = Instant::now();
        loop {
            let chunk = turns.follow(run, offset).await.unwrap();
            assert!(!chunk.shrank);
            assert_eq!(chunk.offset, offset + chunk.bytes.len() as u64);
            offset = chunk.offset;
            bytes.extend_from_slice(&chunk.bytes);
            if let RunState::Ended(code) = chunk.state {
                return (bytes, code);
            }
            let so_far = String::from_utf8_lossy(&bytes);
            assert!(began.elapsed() < PATIENCE, "no end; so far: {so_far:.2000}");
        }
    }

    /// Follows a run until its stream holds `words`.
    pub async fn until(&self, run: &Run, words: &str) -> u64 {
        let turns = self.turns();
        let (mut offset, mut text) = (0, String::new());
        let began = Instant::now();
        while !text.contains(words) {
            let chunk = turns.follow(run, offset).await.unwrap();
            offset = chunk.offset;
            text.push_str(&String::from_utf8_lossy(&chunk.bytes));
            let over = matches!(chunk.state, RunState::Ended(_)) && !text.contains(words);
            assert!(
                !over && began.elapsed() < PATIENCE,
                "no {words:?}: {text:.2000} {chunk:?}"
            );
        }
        offset
    }
}

/// Returns a start whose agent is this shell script; `TRACE` in its environment tells its processes from others.
pub fn agent(script: &str, trace: &str) -> Start {
    Start {
        workdir: "~/work".to_owned(),
        make_workdir: true,
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![("TRACE".to_owned(), trace.to_owned())],
        secrets: vec![],
        settings: "{}".to_owned(),
        system_prompt: "Be kind.".to_owned(),
        first_line: r#"{"say":"first"}"#.to_owned(),
        ceiling: Duration::from_secs(120),
    }
}

/// A word that nothing else on this machine carries.
pub fn trace() -> String {
    format!("trace{:032x}", rand::random::<u128>())
}

/// Returns the processes of this machine whose environment or command line has `word` in it.
pub fn processes_with(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|b| b.is_ascii_digit()) || name == std::process::id().to_string() {
            continue;
        }
        for what in ["environ", "cmdline"] {
            let text = std::fs::read(entry.path().join(what)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).replace('\0', " ");
            if text.contains(word) {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                found.push(format!("{name} {what}: {line:.200}"));
            }
        }
    }
    found
}

/// Runs every check, naming each as it begins.
pub async fn all(place: &Place) {
    macro_rules! each {
        ($($check:ident),* $(,)?) => {$(
            let began = Instant::now();
            eprintln!("{}", stringify!($check).replace('_', " "));
            $check(place).await;
            eprintln!("    ok after {:?}", began.elapsed());
        )*};
    }
    each!(
        output_is_exact_whatever_the_bytes,
        a_command_has_a_clean_environment_and_starts_at_home,
        a_slow_a_talkative_and_a_failing_command_are_told_apart,
        five_megabytes_go_in_and_come_out_unchanged,
        only_plain_files_with_one_link_are_read,
        a_stream_is_exact_from_any_offset,
        new_output_arrives_soon,
        lines_are_taken_once_and_the_end_closes,
        a_large_request_arrives_whole,
        starting_twice_makes_one_agent,
        no_run_starts_beside_an_earlier_one_of_its_chat,
        a_start_that_died_before_it_said_anything_is_tried_once_more,
        a_missing_agent_and_a_bad_workspace_have_their_own_names,
        secrets_are_in_no_list_and_no_file,
        a_kill_leaves_nothing,
        the_end_of_a_run_leaves_nothing,
        a_run_ends_at_its_ceiling,
        a_stream_that_became_shorter_is_noticed,
        produced_files_are_found_and_others_are_not,
        only_new_files_count_where_that_is_asked,
    );
}

pub async fn output_is_exact_whatever_the_bytes(place: &Place) {
    for script in [
        "",
        "printf 'no newline'",
        "printf 'a\\r\\n\\000\\377\\033[2J'",
    ] {
        let expected = std::process::Command::new("sh")
            .args(["-c", script])
            .output()
            .unwrap();
        let done = place.exec(script).await.unwrap();
        assert_eq!(done.out, expected.stdout, "{script}");
    }
    // A character of two bytes across each border of 4096.
    let script = "printf a; i=0; while [ $i -lt 20000 ]; do printf é; i=$((i+1)); done";
    assert_eq!(place.text(script).await, format!("a{}", "é".repeat(20000)));
    for code in [0, 1, 77, 255] {
        assert_eq!(
            place
                .exec(&format!("echo x; exit {code}"))
                .await
                .unwrap()
                .code,
            code
        );
    }
    let exec = Exec {
        script: "printf %s \"$LC_INN_X\"".to_owned(),
        vars: vec![("X", b"\0a/%?\xff'".to_vec())],
        limit: Duration::from_secs(10),
        most: 100,
    };
    let done = place.sandbox.exec(&place.account, exec).await.unwrap();
    assert_eq!(done.out.as_ref(), b"AGEvJT__Jw");
}

pub async fn a_command_has_a_clean_environment_and_starts_at_home(place: &Place) {
    let allowed = [
        "HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PWD", "OLDPWD", "SHLVL", "_",
    ];
    for line in place.text("env").await.lines() {
        let name = line.split('=').next().unwrap();
        assert!(
            allowed.contains(&name) || name.starts_with("INNKEEPER_"),
            "{line}"
        );
    }
    let probe = place.sandbox.probe(&place.account).await.unwrap();
    assert_eq!(place.text("pwd -P").await.trim_end(), probe.home);
    assert_eq!(
        place.turns().probe(&place.account).await.unwrap().home,
        probe.home
    );
}

pub async fn a_slow_a_talkative_and_a_failing_command_are_told_apart(place: &Place) {
    let mut exec = Exec {
        script: "exec sleep 600".to_owned(),
        vars: vec![],
        limit: Duration::from_secs(1),
        most: 1000,
    };
    let began = Instant::now();
    let slow = place.sandbox.exec(&place.account, exec.clone()).await;
    assert!(matches!(slow, Err(SandboxError::Slow(_))), "{slow:?}");
    assert!(began.elapsed() < Duration::from_secs(9));
    exec.script = "head -c 2000000 /dev/zero".to_owned();
    exec.limit = Duration::from_secs(30);
    let much = place.sandbox.exec(&place.account, exec).await;
    assert!(matches!(much, Err(SandboxError::TooMuch(1000))), "{much:?}");
    let full = place.exec("head -c 9 /dev/zero >/dev/full").await;
    assert!(matches!(full, Err(SandboxError::Full)), "{full:?}");
}

pub async fn five_megabytes_go_in_and_come_out_unchanged(place: &Place) {
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n ^ (n >> 9)) as u8).collect();
    let bytes = Bytes::from(bytes);
    let path = "~/in/a b/it's.bin";
    let (sandbox, account) = (&place.sandbox, &place.account);
    let began = Instant::now();
    sandbox.put(account, path, bytes.clone()).await.unwrap();
    let put = began.elapsed();
    assert!(sandbox.get(account, path, 5_000_000).await.unwrap() == bytes);
    eprintln!("    5 MB: put {put:?}, get {:?}", began.elapsed() - put);
    let much = sandbox.get(account, path, 4_999_999).await;
    assert!(matches!(much, Err(SandboxError::TooMuch(4_999_999))));
    sandbox
        .put(account, path, Bytes::from_static(b"new"))
        .await
        .unwrap();
    assert_eq!(
        sandbox.get(account, path, 9).await.unwrap().as_ref(),
        b"new"
    );
    sandbox.put(account, "~/empty", Bytes::new()).await.unwrap();
    assert!(sandbox.get(account, "~/empty", 9).await.unwrap().is_empty());
    // Nothing half-written is left beside it, and nobody else can read it.
    assert_eq!(place.text("ls -A 'in/a b' | wc -l").await.trim(), "1");
    let modes = place
        .text("stat -c %a 'in/a b' 'in/a b/it'\\''s.bin'")
        .await;
    // A home may hand its group on (2700).
    assert_eq!(modes.trim_start_matches('2'), "700\n600\n");
}

pub async fn only_plain_files_with_one_link_are_read(place: &Place) {
    let (sandbox, account) = (&place.sandbox, &place.account);
    place
        .text(
            "mkdir -p odd/dir && cd odd && echo x >plain && ln -s plain soft && echo y >one && ln one two \
             && mkfifo fifo && ln -s dir way && echo z >dir/file && ln -s /etc/passwd etc",
        )
        .await;
    assert_eq!(
        sandbox
            .get(account, "~/odd/plain", 9)
            .await
            .unwrap()
            .as_ref(),
        b"x\n"
    );
    for name in [
        "soft", "one", "two", "fifo", "dir", "way/file", "etc", "missing", "no/where",
    ] {
        let got = sandbox.get(account, &format!("~/odd/{name}"), 9).await;
        assert!(matches!(got, Err(SandboxError::Gone(_))), "{name}: {got:?}");
    }
    // A write replaces a symlink and does not follow it.
    sandbox
        .put(account, "~/odd/soft", Bytes::from_static(b"new"))
        .await
        .unwrap();
    assert_eq!(place.text("cat odd/plain odd/soft").await, "x\nnew");
}

pub async fn a_stream_is_exact_from_any_offset(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    assert_eq!(turns.follow(&run, 0).await.unwrap().state, RunState::Absent);
    let script = "i=0; while [ $i -lt 3000 ]; do printf '{\"n\":%d,\"t\":\"%s\"}\\n' $i \
                  'éééééééééééééééééééééééééééééééééééééééééééééé€😀'; i=$((i+1)); done; exit 3";
    turns.start(&run, &agent(script, &trace())).await.unwrap();
    let (whole, code) = place.rest(&run, 0).await;
    assert_eq!(code, Some(3));
    let text = String::from_utf8(whole.clone()).unwrap();
    assert_eq!(text.lines().count(), 3000);
    assert!(whole.len() > 256 * 1024);
    for offset in [1, 4095, 4096, whole.len() - 1, whole.len()] {
        let (rest, code) = place.rest(&run, offset as u64).await;
        assert!(rest == whole[offset..], "from {offset}");
        assert_eq!(code, Some(3));
    }
}

pub async fn new_output_arrives_soon(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let script = "i=0; while [ $i -lt 20 ]; do date +%s%N; sleep 0.37; i=$((i+1)); done";
    turns.start(&run, &agent(script, &trace())).await.unwrap();
    let (mut offset, mut lags, mut calls) = (0, Vec::new(), 0);
    loop {
        let chunk = turns.follow(&run, offset).await.unwrap();
        calls += 1;
        offset = chunk.offset;
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        for line in String::from_utf8(chunk.bytes.to_vec()).unwrap().lines() {
            lags.push(now.saturating_sub(Duration::from_nanos(line.parse().unwrap())));
        }
        if matches!(chunk.state, RunState::Ended(_)) {
            break;
        }
    }
    lags.sort();
    eprintln!(
        "    20 lines in {calls} calls: lag {:?} median, {:?} at most",
        lags[10], lags[19]
    );
    assert_eq!(lags.len(), 20);
    // A busy machine may be slow; something that polls would be slower still.
    assert!(lags[10] < Duration::from_millis(900), "{lags:?}");
}

pub async fn lines_are_taken_once_and_the_end_closes(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    assert!(matches!(
        turns.say(&run, "1", "{}").await,
        Err(SandboxError::Gone(_))
    ));
    turns
        .start(&run, &agent("cat; echo over", &trace()))
        .await
        .unwrap();
    for _ in 0..2 {
        turns.say(&run, "a.1", r#"{"say":"it's é"}"#).await.unwrap();
    }
    turns.say(&run, "a_1", r#"{"say":"third"}"#).await.unwrap();
    place.until(&run, "third").await;
    turns.close_input(&run).await.unwrap();
    turns.close_input(&run).await.unwrap();
    let (out, code) = place.rest(&run, 0).await;
    let expected = "{\"say\":\"first\"}\n{\"say\":\"it's é\"}\n{\"say\":\"third\"}\nover\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    assert_eq!(code, Some(0));
}

pub async fn a_large_request_arrives_whole(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let mut start = agent("IFS= read -r line; printf '%s\\n' \"$line\"", &trace());
    start.first_line = format!("{{\"say\":\"{}\"}}", "'é\\\\$(x)".repeat(25_000));
    start.system_prompt = "p'é\n".repeat(20_000);
    turns.start(&run, &start).await.unwrap();
    let (out, code) = place.rest(&run, 0).await;
    assert_eq!(code, Some(0));
    assert!(
        out == format!("{}\n", start.first_line).into_bytes(),
        "{}",
        out.len()
    );
    let prompt = place
        .sandbox
        .get(&place.account, &run.system_prompt(), 1 << 20)
        .await
        .unwrap();
    assert!(prompt == start.system_prompt.as_bytes());
    start.first_line = "x".repeat(2_000_000);
    assert!(matches!(
        turns.start(&place.run(), &start).await,
        Err(StartError::Sandbox(SandboxError::Failed(_)))
    ));
}

pub async fn starting_twice_makes_one_agent(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let script = "echo $$ >>started; echo ready; cat >/dev/null; exit 5";
    let mut start = agent(script, &trace());
    start.workdir = format!("~/twice-{}", run.turn);
    let (one, two, three) = tokio::join!(
        turns.start(&run, &start),
        turns.start(&run, &start),
        turns.start(&run, &start)
    );
    one.and(two).and(three).unwrap();
    place.until(&run, "ready").await;
    turns.start(&run, &start).await.unwrap();
    turns.close_input(&run).await.unwrap();
    assert_eq!(place.rest(&run, 0).await.1, Some(5));
    // Neither does a start after its end.
    turns.start(&run, &start).await.unwrap();
    assert_eq!(place.rest(&run, 0).await, (b"ready\n".to_vec(), Some(5)));
    let count = place
        .text(&format!("wc -l <twice-{}/started", run.turn))
        .await;
    assert_eq!(count.trim(), "1");
}

pub async fn no_run_starts_beside_an_earlier_one_of_its_chat(place: &Place) {
    let turns = place.turns();
    let start = agent("echo ready; cat >/dev/null", &trace());
    let first = place.run();
    turns.start(&first, &start).await.unwrap();
    place.until(&first, "ready").await;
    let second = Run {
        turn: TurnId(first.turn.0 + 1),
        attempt: 1,
        ..first.clone()
    };
    match turns.start(&second, &start).await {
        Err(StartError::NotAlone(others)) => assert_eq!(others, std::slice::from_ref(&first)),
        other => panic!("{other:?}"),
    }
    assert_eq!(turns.state(&second).await.unwrap(), RunState::Absent);
    turns.kill(&first, false).await.unwrap();
    turns.start(&second, &start).await.unwrap();
    place.until(&second, "ready").await;
    // One that is over is in nobody's way, whatever it left, and whoever asks names the run as it is called.
    let third = Run {
        turn: TurnId(first.turn.0 + 2),
        ..first.clone()
    };
    match turns.start(&third, &start).await {
        Err(StartError::NotAlone(others)) => assert_eq!(others, std::slice::from_ref(&second)),
        other => panic!("{other:?}"),
    }
    turns.close_input(&second).await.unwrap();
    assert_eq!(place.rest(&second, 0).await.1, Some(0));
    turns.start(&third, &start).await.unwrap();
    turns.kill(&third, false).await.unwrap();
}

pub async fn a_start_that_died_before_it_said_anything_is_tried_once_more(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let mut start = agent("echo x >>started; sleep 600", &trace());
    start.workdir = format!("~/died-{}", run.turn);
    let started = format!("cat died-{}/started 2>/dev/null | wc -l", run.turn);
    let directory = run.directory().replace("~/", "");
    for attempt in 1..=2 {
        turns.start(&run, &start).await.unwrap();
        let began = Instant::now();
        while place.text(&started).await.trim() != attempt.to_string() {
            assert!(began.elapsed() < PATIENCE, "attempt {attempt}");
        }
        // As if the machine had gone down: everything is gone at once, and no exit code is left.
        let target = innkeeper::sandbox::Target {
            directory: "~/nowhere".to_owned(),
            mark: run.mark(),
            alone: false,
        };
        place.sandbox.kill(&place.account, &target).await.unwrap();
        assert_eq!(
            place
                .exec(&format!("test -e {directory}/exit"))
                .await
                .unwrap()
                .code,
            1
        );
        assert_eq!(place.rest(&run, 0).await, (vec![], None));
    }
    turns.start(&run, &start).await.unwrap();
    assert_eq!(place.rest(&run, 0).await, (vec![], None));
    assert_eq!(place.text(&started).await.trim(), "2");
}

pub async fn a_missing_agent_and_a_bad_workspace_have_their_own_names(place: &Place) {
    let turns = place.turns();
    for program in ["no-such-agent", "/no/such/agent", "/etc"] {
        let mut start = agent("", &trace());
        start.argv = vec![program.to_owned()];
        let run = place.run();
        let failed = turns.start(&run, &start).await;
        assert!(
            matches!(failed, Err(StartError::AgentMissing)),
            "{program}: {failed:?}"
        );
        // What was mended works afterwards, under the same name.
        assert_eq!(turns.follow(&run, 0).await.unwrap().state, RunState::Absent);
        turns
            .start(&run, &agent("echo mended", &trace()))
            .await
            .unwrap();
        assert_eq!(place.rest(&run, 0).await, (b"mended\n".to_vec(), Some(0)));
    }
    place.text("echo x >plain").await;
    for (workdir, make) in [
        ("~/missing", false),
        ("~/plain", true),
        ("~/plain/below", true),
    ] {
        let mut start = agent("", &trace());
        start.workdir = workdir.to_owned();
        start.make_workdir = make;
        let failed = turns.start(&place.run(), &start).await;
        assert!(
            matches!(&failed, Err(StartError::Workspace(why)) if why.len() > workdir.len() + 2),
            "{workdir}: {failed:?}"
        );
    }
}

pub async fn secrets_are_in_no_list_and_no_file(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let (secret, request) = (trace(), trace());
    let script = "printf '%s\\n' \"${#TOKEN}\"; \
                  tr '\\0' '\\n' </proc/$PPID/environ | grep -c TOKEN; echo ready; cat >/dev/null";
    let mut start = agent(script, "quiet");
    start.secrets = vec![("TOKEN".to_owned(), secret.clone().into())];
    start.first_line = format!("{{\"say\":\"{request}\"}}");
    turns.start(&run, &start).await.unwrap();
    place.until(&run, "ready").await;
    // Only the agent itself, and nobody's command line, in any spelling.
    let has = processes_with(&secret);
    assert!(has.len() <= 2, "{has:?}");
    assert!(
        has.iter()
            .all(|line| line.contains("environ: sh -c printf") || line.contains("environ: cat")),
        "{has:?}"
    );
    assert_eq!(processes_with(&request), Vec::<String>::new());
    let found = place
        .exec(&format!("grep -rlF {} . ; true", &secret[..20]))
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.out), "");
    turns.close_input(&run).await.unwrap();
    let (out, _) = place.rest(&run, 0).await;
    assert_eq!(String::from_utf8(out).unwrap(), "37\n0\nready\n");
    let mode = place.text("stat -c %a .innkeeper").await;
    assert_eq!(mode.trim_start_matches('2'), "700\n");
}

pub async fn a_kill_leaves_nothing(place: &Place) {
    let turns = place.turns();
    let trace = trace();
    let script = "trap '' TERM INT HUP
        setsid -f nohup sh -c 'trap \"\" TERM INT HUP; while :; do sleep 60; done' >/dev/null 2>&1
        setsid sleep 600 &
        (trap '' TERM; sleep 600) &
        echo ready; while :; do sleep 60; done";
    let run = place.run();
    turns.start(&run, &agent(script, &trace)).await.unwrap();
    place.until(&run, "ready").await;
    assert!(processes_with(&trace).len() >= 4);
    turns.kill(&run, false).await.unwrap();
    assert_eq!(processes_with(&trace), Vec::<String>::new());
    let (out, code) = place.rest(&run, 0).await;
    assert_eq!((out.as_slice(), code), (b"ready\n".as_slice(), Some(137)));
    // A start that comes late does not take it up again; killing it again is no fault.
    turns.start(&run, &agent(script, &trace)).await.unwrap();
    turns.kill(&run, false).await.unwrap();
    assert_eq!(processes_with(&trace), Vec::<String>::new());

    if place.own {
        // Without the mark it is found as well, when the account has no other run.
        let run = place.run();
        let script = "env -u INNKEEPER_RUN -u INNKEEPER_HOUSE setsid -f sleep 600 >/dev/null 2>&1; echo ready; cat";
        turns.start(&run, &agent(script, &trace)).await.unwrap();
        place.until(&run, "ready").await;
        turns.kill(&run, true).await.unwrap();
        assert_eq!(processes_with(&trace), Vec::<String>::new());
    }
    // A second run of the account is left alone.
    let (one, two) = (place.run(), place.run());
    for run in [&one, &two] {
        turns
            .start(run, &agent("echo ready; cat", &trace))
            .await
            .unwrap();
        place.until(run, "ready").await;
    }
    turns.kill(&one, false).await.unwrap();
    assert!(place.rest(&one, 0).await.1.is_some());
    turns.close_input(&two).await.unwrap();
    assert_eq!(place.rest(&two, 0).await.1, Some(0));
}

pub async fn the_end_of_a_run_leaves_nothing(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let trace = trace();
    let script = "setsid -f nohup sleep 600; (trap '' TERM; sleep 600) & echo done";
    turns.start(&run, &agent(script, &trace)).await.unwrap();
    let (out, code) = place.rest(&run, 0).await;
    assert_eq!((out.as_slice(), code), (b"done\n".as_slice(), Some(0)));
    // The runner ends after its last word; it is the only one that may still be seen.
    let began = Instant::now();
    while !processes_with(&trace).is_empty() {
        assert!(began.elapsed() < PATIENCE, "{:?}", processes_with(&trace));
        tokio::task::yield_now().await;
    }
}

pub async fn a_run_ends_at_its_ceiling(place: &Place) {
    let run = place.run();
    let mut start = agent("echo begun; sleep 600", &trace());
    start.ceiling = Duration::from_secs(1);
    place.turns().start(&run, &start).await.unwrap();
    assert_eq!(place.rest(&run, 0).await, (b"begun\n".to_vec(), Some(124)));
}

pub async fn a_stream_that_became_shorter_is_noticed(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    turns
        .start(&run, &agent("echo 0123456789; cat", &trace()))
        .await
        .unwrap();
    let offset = place.until(&run, "first").await;
    place
        .text(&format!(
            "truncate -s 3 {}/out.jsonl",
            run.directory().replace("~/", "")
        ))
        .await;
    let Chunk { shrank, bytes, .. } = turns.follow(&run, offset).await.unwrap();
    assert!(shrank && bytes.is_empty());
    turns.kill(&run, false).await.unwrap();
}

pub async fn produced_files_are_found_and_others_are_not(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let work = format!("~/made-{}", run.turn);
    let bare = work.replace("~/", "");
    let dirs = [
        work.clone(),
        run.outbox(),
        run.inbox(MessageId(1)),
        run.tmp(),
    ];
    place
        .text(&format!("mkdir -p {}", dirs.join(" ").replace("~/", "")))
        .await;
    place
        .text(&format!(
            "cd {bare}; echo old >old; echo old >changed; echo old >other"
        ))
        .await;
    let mut start = agent(
        "echo x >changed; printf 12345 >'b \"odd\"
name é'; cp -p old copy; mkdir -p sub node_modules/x .git target
        echo x >sub/deep; echo x >node_modules/x/y; echo x >.git/z; echo x >.hidden; echo x >target/t
        ln -s /etc/passwd soft; echo x >one; ln one two; mkfifo fifo; ln other alsoother
        echo out >\"$OUT/z\"; echo .; ln -s /etc way",
        &trace(),
    );
    start.workdir = work.clone();
    let home = turns.probe(&place.account).await.unwrap().home;
    start
        .env
        .push(("OUT".to_owned(), absolute(&home, &run.outbox())));
    turns.start(&run, &start).await.unwrap();
    place.rest(&run, 0).await;
    let produced = Produced::new(place.sandbox.clone());
    let found = produced.look(&run, &work, Collect::All).await.unwrap();
    let shown: Vec<&str> = found.files.iter().map(|file| file.shown.as_str()).collect();
    assert_eq!(
        shown,
        ["z", "b \"odd\"\nname é", "changed", "copy", "sub/deep"],
        "{found:?}"
    );
    assert_eq!((found.more, found.failed), (false, None));
    assert_eq!(found.files[1].size, 5);
    for file in &found.files {
        let bytes = place
            .sandbox
            .get(&place.account, &file.path, 100)
            .await
            .unwrap();
        assert_eq!(bytes.len() as u64, file.size, "{}", file.path);
    }
    let found = produced.look(&run, &work, Collect::Outbox).await.unwrap();
    assert_eq!(found.files.len(), 1);
    let found = produced.look(&place.run(), &work, Collect::All).await;
    assert!(found.is_err());
    // Far too many.
    place
        .text(&format!(
            "cd {bare}; i=0; while [ $i -lt 300 ]; do echo >many$i; i=$((i+1)); done"
        ))
        .await;
    let found = produced.look(&run, &work, Collect::All).await.unwrap();
    assert!(
        found.more && found.files.len() <= 201,
        "{}",
        found.files.len()
    );
}

pub async fn only_new_files_count_where_that_is_asked(place: &Place) {
    let run = place.run();
    let turns = place.turns();
    let work = format!("~/new-{}", run.turn);
    let bare = work.replace("~/", "");
    place
        .text(&format!(
            "mkdir {bare}; cd {bare}; echo old >changed; echo old >replaced"
        ))
        .await;
    let produced = Produced::new(place.sandbox.clone());
    produced.note(&run, &work).await.unwrap();
    let mut start = agent(
        "echo x >changed; echo x >r; mv r replaced; echo x >new",
        &trace(),
    );
    start.workdir = work.clone();
    turns.start(&run, &start).await.unwrap();
    place.rest(&run, 0).await;
    // Repeating it, as after a restart, does not make new files old.
    produced.note(&run, &work).await.unwrap();
    let found = produced.look(&run, &work, Collect::New).await.unwrap();
    let shown: Vec<&str> = found.files.iter().map(|file| file.shown.as_str()).collect();
    assert_eq!((shown, found.more), (vec!["new"], false));
    // Without a list nothing counts as new.
    place
        .text(&format!("rm {}/before", run.directory().replace("~/", "")))
        .await;
    let found = produced.look(&run, &work, Collect::New).await.unwrap();
    assert!(found.files.is_empty() && found.more);
}
