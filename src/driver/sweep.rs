//! Once a day: removes from the sandbox what turns and chats left that are over for long.
//!
//! It must never touch a project's own directory, nor a turn that may still run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::domain::chat::Chat;
use crate::domain::ids::AccountId;
use crate::sandbox::{Exec, shell};

use super::house::House;

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
  old "$chat/turns" || continue
  [ -z "$work" ] || (cd -- "$home" && rm -rf -- "$work")
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
            over.push_str(&line(chat));
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
        let done = house.ports.sandbox.exec(&account, exec).await;
        let done = done.with_context(|| format!("account {account}"))?;
        removed += done.out.split(|byte| *byte == b'\n').count() - 1;
    }
    Ok(removed)
}

/// Returns a chat's line: its id, and its own workspace, if it has one. A place that does not bear the chat's id is shared.
fn line(chat: &Chat) -> String {
    let id = chat.thread.to_string();
    let own = chat.workdir.contains(&id) && !chat.workdir.contains('\n');
    let path = shell::path(&chat.workdir).ok().filter(|_| own);
    format!("{id} {}\n", path.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::ThreadId;
    use crate::domain::samples::chat;

    #[test]
    fn only_a_workspace_that_bears_the_chats_id_goes_with_it() {
        let mut over = chat(ThreadId(77));
        for (workdir, expected) in [
            ("~/chat-77", "77 ./chat-77\n"),
            ("/srv/site", "77 \n"),
            ("~/a\n77", "77 \n"),
        ] {
            over.workdir = workdir.to_owned();
            assert_eq!(line(&over), expected);
        }
    }
}
