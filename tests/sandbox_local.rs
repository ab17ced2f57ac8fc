//! The local sandbox: ordinary processes as root, bubblewrap as an ordinary user.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail; clippy knows only functions marked as tests"
)]

mod sandbox_checks;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use innkeeper::domain::ids::AccountId;
use innkeeper::sandbox::Confinement;
use innkeeper::sandbox::local::{Local, LocalOptions};
use sandbox_checks::{Place, agent, processes_with, trace};

/// Set in the process that only starts a run and dies: the homes' directory.
const STARTER: &str = "INNKEEPER_TEST_STARTER";

/// As an ordinary user everything must be wrapped; `tests/tools/setup.sh` brings what that needs.
fn wrapped() -> bool {
    !nix::unistd::geteuid().is_root()
}

fn place(root: &Path, options: LocalOptions) -> Place {
    let local = Local::new(root.to_owned(), options).unwrap();
    assert_eq!(
        local.describe().is_none(),
        wrapped(),
        "{:?}",
        local.describe()
    );
    Place {
        sandbox: Arc::new(local),
        account: AccountId("k3x9abcd".to_owned()),
        own: wrapped(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_promise_of_a_sandbox_holds() {
    let root = tempfile::tempdir().unwrap();
    sandbox_checks::all(&place(root.path(), LocalOptions::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_sees_its_home_and_projects_and_nothing_of_the_bot() {
    let root = tempfile::tempdir().unwrap();
    let homes = root.path().join("homes");
    let secret = root.path().join("config.toml");
    std::fs::write(&secret, "token").unwrap();
    let project = root.path().join("project");
    let tool = root.path().join("tool");
    std::fs::create_dir(&project).unwrap();
    std::fs::create_dir(&tool).unwrap();
    let place = place(
        &homes,
        LocalOptions {
            writable: vec![project.clone(), root.path().join("not there")],
            readable: vec![tool.clone()],
        },
    );
    place
        .text(&format!("cd '{}' && echo x >made", project.display()))
        .await;
    assert!(project.join("made").exists());
    let probe = place.sandbox.probe(&place.account).await.unwrap();
    assert_eq!(probe.confinement, Confinement::Works);
    if wrapped() {
        assert_eq!(probe.home, "/home/k3x9abcd");
        for script in [
            format!("cat '{}'", secret.display()),
            format!("echo x >'{}/made'", tool.display()),
            "ls /root".to_owned(),
            "cat /etc/shadow".to_owned(),
            "echo x >/usr/x".to_owned(),
            format!("test -e /proc/{}/status", std::process::id()),
            format!("ls '{}'", homes.display()),
        ] {
            assert_ne!(place.exec(&script).await.unwrap().code, 0, "{script}");
        }
        assert_eq!(place.text("ls -A /home").await, "k3x9abcd\n");
        assert_eq!(place.text("ls -A /tmp | grep -v tmp; true").await, "");
        // Secrets do not stay with the namespace's first process either.
        let script = "test -r /proc/1/environ && ! tr '\\0' '\\n' </proc/1/environ | grep LC_INN";
        assert_eq!(place.exec(script).await.unwrap().code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_the_bot_that_started_it() {
    if let Some(root) = std::env::var_os(STARTER) {
        // The other process: starts a run and is killed by a signal before it can tidy up.
        let place = place(Path::new(&root), LocalOptions::default());
        let (run, word) = known_run();
        place
            .turns()
            .start(&run, &agent("echo begun; cat; echo over", &word))
            .await
            .unwrap();
        place.until(&run, "begun").await;
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    let root = tempfile::tempdir().unwrap();
    let (run, word) = known_run();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_run_outlives_the_bot_that_started_it",
            "--nocapture",
        ])
        .env(STARTER, root.path())
        .status()
        .unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
    let place = place(root.path(), LocalOptions::default());
    assert!(!processes_with(&word).is_empty());
    place.turns().close_input(&run).await.unwrap();
    let (out, code) = place.rest(&run, 0).await;
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "begun\n{\"say\":\"first\"}\nover\n"
    );
    assert_eq!(code, Some(0));
}

/// A run that two processes know by name; the word tells its processes from others.
fn known_run() -> (innkeeper::driver::turn_directory::Run, String) {
    let run = innkeeper::driver::turn_directory::Run {
        account: AccountId("k3x9abcd".to_owned()),
        thread: innkeeper::domain::ids::ThreadId(77),
        turn: innkeeper::domain::ids::TurnId(78),
        attempt: 0,
    };
    (run, format!("outlives-{}", nix::unistd::geteuid()))
}

#[test]
fn everything_holds_for_an_ordinary_user_inside_bubblewrap() {
    if !nix::unistd::geteuid().is_root() {
        // Then the other tests are the wrapped ones already, if bubblewrap works here.
        let root = tempfile::tempdir().unwrap();
        let local = Local::new(root.path().to_owned(), LocalOptions::default()).unwrap();
        assert_eq!(local.describe(), None, "run tests/tools/setup.sh");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = root.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
        .arg(&program)
        .args(["--nocapture", "--test-threads", "2"])
        .current_dir("/")
        .env("TMPDIR", root.path())
        .env("HOME", root.path())
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the tests as an ordinary user failed, see above"
    );
}

#[tokio::test]
async fn two_accounts_do_not_see_each_other() {
    let root = tempfile::tempdir().unwrap();
    let one = place(root.path(), LocalOptions::default());
    let two = Place {
        account: AccountId("other".to_owned()),
        ..one.clone()
    };
    let word = trace();
    one.text(&format!("echo {word} >note")).await;
    let home = one.sandbox.probe(&one.account).await.unwrap().home;
    if wrapped() {
        assert_ne!(two.exec(&format!("cat {home}/note")).await.unwrap().code, 0);
    }
    assert_ne!(two.exec("cat note").await.unwrap().code, 0);
}
