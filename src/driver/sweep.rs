//! Once a day: removes from the sandbox what turns and chats left that are over for long, and forgets what was seen.
//!
//! It must never touch a project's own directory, nor a turn that may still run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::domain::chat::Chat;
use crate::domain::ids::{AccountId, ThreadId};
use crate::sandbox::{Exec, shell};

use super::catch_up;
use super::house::House;
use super::scope;

/// How long after the start the first sweep comes, and how long after each the next.
const FIRST: Duration = Duration::from_secs(60 * 60);
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes, for each chat that is over and has had no turn for DAYS, all that is its own; then directories of turns that
/// ended DAYS ago. At most 500 of each at once. A directory's time is that of its last entry: a turn's is its end.
const SWEEP: &str = r#"take DAYS
home=$PWD
cd .innkeeper/chats 2>/dev/null || exit 0
old() { [ -n "$(find "$1" -maxdepth 0 -type d -mtime "+$DAYS" 2>/dev/null)" ]; }
inn OVER | while read -r chat work; do
  old "${chat#+}/turns" || continue
  [ -z "$work" ] || (cd -- "$home" && rm -rf -- "$work")
  case $chat in +*) continue;; esac
  rm -rf -- "$home/io/$chat" "$chat"
  echo "$chat"
done
find . -mindepth 3 -maxdepth 3 -type d -path './*/turns/*' -mtime "+$DAYS" 2>/dev/null | head -n 500 | while read -r turn; do
  [ -e "$turn/exit" ] && rm -rf -- "$turn" && echo "$turn"
done
exit 0
"#;

/// The most chats that one sweep of an account asks about.
const MOST: usize = 500;

/// Sweeps once a day, until the house closes.
pub async fn daily(house: Arc<House>) {
    let mut wait = FIRST;
    loop {
        tokio::select! {
            () = house.cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = AGAIN;
        if let Err(error) = catch_up::forget(&house) {
            tracing::error!(%error, "what was seen long ago could not be forgotten");
        }
        match once(&house).await {
            Ok(removed) => tracing::info!(removed, "swept the sandbox"),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "the sandbox was not swept"),
        }
    }
}

/// Sweeps every account and returns how many directories of chats and turns were removed.
pub async fn once(house: &House) -> anyhow::Result<usize> {
    let chats = house.store.chats().context("could not read the chats")?;
    let mut accounts: HashMap<AccountId, String> = HashMap::new();
    for chat in &chats {
        let over = accounts.entry(chat.account.clone()).or_default();
        if chat.closed && over.lines().count() < MOST {
            over.push_str(&lines(house, chat));
        }
    }
    let days = house.keep.as_secs() / (24 * 60 * 60);
    let mut removed = 0;
    for (account, over) in accounts {
        let exec = Exec {
            script: shell::script(SWEEP),
            vars: vec![
                ("DAYS", days.to_string().into_bytes()),
                ("OVER", over.into_bytes()),
            ],
            limit: Duration::from_secs(300),
            most: 1024 * 1024,
        };
        match house.ports.sandbox.exec(&account, exec).await {
            Ok(done) => removed += done.out.iter().filter(|byte| **byte == b'\n').count(),
            // The others are swept all the same.
            Err(error) => tracing::warn!(%account, %error, "an account was not swept"),
        }
    }
    Ok(removed)
}

/// Returns a chat's lines: its id and its own workspace, if it has one; before it, marked, those of its further projects.
fn lines(house: &House, chat: &Chat) -> String {
    let further = chat.projects.iter().skip(1).map(|slug| {
        let directory = scope::directory(house, slug, chat.thread);
        format!("+{} {}\n", chat.thread, own(chat.thread, &directory))
    });
    let first = format!("{} {}\n", chat.thread, own(chat.thread, &chat.workdir));
    further.chain([first]).collect()
}

/// Returns a chat's own directory for the shell, or nothing: a place that does not bear the chat's id is shared.
fn own(thread: ThreadId, directory: &str) -> String {
    let own = directory.contains(&thread.to_string()) && !directory.contains('\n');
    let path = shell::path(directory).ok().filter(|_| own);
    path.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::project::Catalogue;
    use crate::domain::samples::{chat, project, rules, slug};
    use crate::driver::clock::SystemClock;
    use crate::driver::fakes::{FakeSurface, house};
    use crate::store::Store;

    async fn run(house: &House, account: &AccountId, script: &str) -> String {
        let exec = Exec {
            script: script.to_owned(),
            vars: vec![],
            limit: Duration::from_secs(30),
            most: 1 << 20,
        };
        let done = house.ports.sandbox.exec(account, exec).await.unwrap();
        String::from_utf8_lossy(&done.out).into_owned()
    }

    #[tokio::test]
    async fn what_is_over_for_long_goes_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("store")).unwrap();
        let surface = FakeSurface::new(Arc::new(SystemClock));
        let catalogue = Catalogue(vec![project("site"), project("notes")]);
        let homes = home.path().join("homes");
        let house = house(&surface, &store, rules(), catalogue, &homes);
        for (id, closed) in [(77, true), (78, false), (79, true)] {
            let mut one = chat(ThreadId(id));
            one.workdir = format!("~/chat-{id}");
            one.closed = closed;
            one.projects.push(slug("notes"));
            store.put_chat(&one).unwrap();
        }
        let account = chat(ThreadId(77)).account;
        let furnish = "for turn in 77/turns/1 78/turns/2 78/turns/3 78/turns/4 79/turns/5; do
            mkdir -p .innkeeper/chats/$turn; echo 0 >.innkeeper/chats/$turn/exit; done
            mkdir -p chat-77 chat-77-notes chat-78 chat-78-notes chat-79 chat-79-notes io/77/out io/78/out
            rm .innkeeper/chats/78/turns/4/exit
            cd .innkeeper/chats && touch -d '40 days ago' 77/turns 78/turns/2 78/turns/4";
        run(&house, &account, furnish).await;
        assert_eq!(once(&house).await.unwrap(), 2);
        let left = run(
            &house,
            &account,
            "echo chat-* io/*; cd .innkeeper/chats; echo */turns/*",
        )
        .await;
        assert_eq!(
            left,
            "chat-78 chat-78-notes chat-79 chat-79-notes io/78\n78/turns/3 78/turns/4 79/turns/5\n"
        );
    }

    #[test]
    fn only_a_workspace_that_bears_the_chats_id_goes_with_it() {
        for (workdir, expected) in [
            ("~/chat-77", "./chat-77"),
            ("/srv/site", ""),
            ("~/a\n77", ""),
        ] {
            assert_eq!(own(ThreadId(77), workdir), expected);
        }
    }
}
