//! Lets the agent's conversation and a chat's files follow into another chat: copied inside the sandbox, by the account itself.
//!
//! It must never copy while an agent of the chat can change what is copied, reach into a directory that is not the chat's own,
//! nor leave the new chat with half of it.

use std::time::Duration;

use anyhow::Context as _;

use crate::domain::chat::{Chat, Session};
use crate::domain::project::Workspace;
use crate::sandbox::{Exec, shell};

use super::house::House;
use super::scope;

/// How long copying may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Copies the directories of DIRS (line by line from, to), then the conversation. The agent's program finds a session by
/// the directory that it works in and by its name (measured, 2.1.197), so both change with it; so do the paths in it, which
/// would else lead the agent back to where it may not write. A link is no directory of the chat's own.
const COPY: &str = r#"umask 077
take FROM TO OLD NEW MOVES PATHS
chats=.innkeeper/chats
for file in "$chats/$FROM"/config/projects/*/"$OLD.jsonl"; do break; done
[ -f "$file" ] && [ ! -h "$file" ] || exit 40
at=$(basename "$(dirname "$file")")
there=$(printf %s "$at" | sed "s/$FROM/$TO/g")
[ "$MOVES" = no ] || [ "$there" != "$at" ] || exit 40
inn DIRS | while read -r from; do
  read -r to
  [ -e "$from" ] || continue
  [ -d "$from" ] && [ ! -h "$from" ] && [ ! -e "$to" ] \
    && mkdir -p -- "$(dirname "$to")" && cp -aT -- "$from" "$to" || exit 41
done || exit 41
mkdir -p -- "$chats/$TO/config/projects/$there" || exit 41
sed -e "s/$OLD/$NEW/g" -e "$PATHS" -- "$file" >"$chats/$TO/config/projects/$there/$NEW.jsonl" || exit 41
"#;

/// Removes what was copied.
const DROP: &str = r#"take TO
inn DIRS | while read -r from; do read -r to; rm -rf -- "$to"; done
rm -rf -- ".innkeeper/chats/$TO"
"#;

/// Copies a chat's conversation, and those of its directories that are its own, for another chat that has the same account and
/// nothing yet. `false`: it cannot be copied, and nothing of it is left.
pub async fn follow(
    house: &House,
    from: &Chat,
    to: &Chat,
    session: &Session,
) -> anyhow::Result<bool> {
    let newest = || house.store.newest_turn(from.thread);
    let before = newest()?.map(|turn| turn.id);
    let copied = match run(house, from, COPY, vars(house, from, to, session)?).await {
        Ok(0) => true,
        Ok(code) => {
            tracing::info!(chat = %from.thread, code, "a conversation cannot be copied");
            false
        }
        Err(error) => {
            tracing::warn!(chat = %from.thread, error = format!("{error:#}"), "a conversation was not copied");
            false
        }
    };
    // Whatever an agent changed while it was copied is nothing to rely on.
    let calm =
        house.store.open_turns(from.thread)?.is_empty() && newest()?.map(|turn| turn.id) == before;
    if copied && calm {
        return Ok(true);
    }
    forget(house, from, to, session).await?;
    Ok(false)
}

/// Removes what was copied for a chat that is not to be after all.
pub async fn forget(
    house: &House,
    from: &Chat,
    to: &Chat,
    session: &Session,
) -> anyhow::Result<()> {
    let dropped = run(house, from, DROP, vars(house, from, to, session)?).await;
    let code = dropped.context("could not remove what was copied of a chat")?;
    anyhow::ensure!(
        code == 0,
        "could not remove what was copied of a chat (exit code {code})"
    );
    Ok(())
}

type Vars = Vec<(&'static str, Vec<u8>)>;

async fn run(house: &House, chat: &Chat, script: &str, vars: Vars) -> anyhow::Result<i32> {
    let exec = Exec {
        script: shell::script(script),
        vars,
        limit: LIMIT,
        most: 4096,
    };
    Ok(house.ports.sandbox.exec(&chat.account, exec).await?.code)
}

fn vars(house: &House, from: &Chat, to: &Chat, session: &Session) -> anyhow::Result<Vars> {
    let mut dirs = String::new();
    for slug in &to.projects {
        let project = house.catalogue.get(slug).map(|project| &project.workspace);
        if matches!(project, Some(Workspace::InPlace { .. })) {
            continue;
        }
        for chat in [from, to] {
            let path = match slug == &to.projects[0] {
                true => chat.workdir.clone(),
                false => scope::directory(house, slug, chat.thread),
            };
            anyhow::ensure!(!path.contains('\n'), "a path with a line break in it");
            dirs.push_str(&shell::path(&path)?);
            dirs.push('\n');
        }
    }
    let (old, new) = (from.thread.to_string(), to.thread.to_string());
    let place = |id: &str| {
        let path = house.workdir.replace("{chat}", id);
        path.trim_start_matches('~').to_owned()
    };
    let moves = if from.workdir == to.workdir {
        "no"
    } else {
        "yes"
    };
    Ok(vec![
        ("FROM", old.clone().into()),
        ("TO", new.clone().into()),
        ("OLD", from.session.id.0.clone().into()),
        ("NEW", session.id.0.clone().into()),
        ("MOVES", moves.into()),
        ("DIRS", dirs.into()),
        ("PATHS", replacing(&place(&old), &place(&new)).into()),
    ])
}

/// Returns what tells `sed` to put one text in another's place, wherever it stands.
fn replacing(old: &str, new: &str) -> String {
    let escaped = |text: &str, special: &str| -> String {
        let escape = |c| match special.contains(c) {
            true => vec!['\\', c],
            false => vec![c],
        };
        text.chars().flat_map(escape).collect()
    };
    format!("s/{}/{}/g", escaped(old, r"\/.*[]^$"), escaped(new, r"\/&"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::ids::{SessionId, ThreadId};
    use crate::domain::project::Catalogue;
    use crate::domain::samples::{chat, project, rules, slug, turn};
    use crate::domain::turn_record::Stage;
    use crate::driver::clock::SystemClock;
    use crate::driver::fakes::{FakeSurface, house};
    use crate::store::Store;

    /// A house with a chat that has files and a conversation, and another that has nothing yet.
    struct Town {
        _home: tempfile::TempDir,
        house: Arc<House>,
        from: Chat,
        to: Chat,
    }

    impl Town {
        async fn new() -> Town {
            let home = tempfile::tempdir().unwrap();
            let store = Store::open(&home.path().join("store")).unwrap();
            let surface = FakeSurface::new(Arc::new(SystemClock));
            let mut shop = project("shop");
            shop.workspace = Workspace::InPlace {
                path: "/no/such/shop".to_owned(),
            };
            let catalogue = Catalogue(vec![project("site"), project("notes"), shop]);
            let homes = home.path().join("homes");
            let house = house(&surface, &store, rules(), catalogue, &homes);
            let in_thread = |id: u64| {
                let mut one = chat(ThreadId(id));
                one.workdir = house.workdir.replace("{chat}", &id.to_string());
                one.projects = vec![slug("site"), slug("notes"), slug("shop")];
                one.session.id = SessionId(format!("s-{id}"));
                one
            };
            let (from, to) = (in_thread(70), in_thread(71));
            let town = Town {
                _home: home,
                house,
                from,
                to,
            };
            town.run(
                "mkdir -p chat-70/.git chat-70-notes .innkeeper/chats/70/config/projects/-h-chat-70
                echo mine >chat-70/a; echo x >chat-70/.git/HEAD; echo note >chat-70-notes/n; ln -s ../secret chat-70/link
                echo '{\"id\":\"s-70\",\"cwd\":\"/h/chat-70\",\"other\":\"/h/chat-70-notes /h/chat-7 <#70>\"}' \
                    >.innkeeper/chats/70/config/projects/-h-chat-70/s-70.jsonl",
            )
            .await;
            town
        }

        async fn run(&self, script: &str) -> String {
            let exec = Exec {
                script: script.to_owned(),
                vars: vec![],
                limit: Duration::from_secs(30),
                most: 1 << 20,
            };
            let done = self.house.ports.sandbox.exec(&self.from.account, exec);
            String::from_utf8_lossy(&done.await.unwrap().out).into_owned()
        }

        async fn follow(&self) -> bool {
            follow(&self.house, &self.from, &self.to, &self.to.session)
                .await
                .unwrap()
        }

        /// Returns what there is of the new chat.
        async fn there(&self) -> String {
            self.run("find . -path '*71*' ! -type d | LC_ALL=C sort")
                .await
        }
    }

    #[tokio::test]
    async fn conversation_and_files_follow_under_the_new_chats_names() {
        let town = Town::new().await;
        assert!(town.follow().await);
        assert_eq!(
            town.there().await,
            "./.innkeeper/chats/71/config/projects/-h-chat-71/s-71.jsonl\n./chat-71-notes/n\n./chat-71/.git/HEAD\n./chat-71/a\n\
             ./chat-71/link\n"
        );
        assert_eq!(
            town.run(
                "cat .innkeeper/chats/71/config/projects/*/*; readlink chat-71/link; cat chat-70/a"
            )
            .await,
            "{\"id\":\"s-71\",\"cwd\":\"/h/chat-71\",\"other\":\"/h/chat-71-notes /h/chat-7 <#70>\"}\n../secret\nmine\n"
        );
    }

    #[tokio::test]
    async fn a_project_that_is_worked_on_in_place_is_shared_and_not_copied() {
        let mut town = Town::new().await;
        for chat in [&mut town.from, &mut town.to] {
            chat.projects = vec![slug("shop")];
            chat.workdir = "/no/such/shop".to_owned();
        }
        town.run("cd .innkeeper/chats/70/config/projects && mv -- -h-chat-70 -no-such-shop")
            .await;
        assert!(town.follow().await);
        assert_eq!(
            town.there().await,
            "./.innkeeper/chats/71/config/projects/-no-such-shop/s-71.jsonl\n"
        );
    }

    #[tokio::test]
    async fn what_cannot_follow_whole_leaves_nothing() {
        for spoil in [
            "rm -r .innkeeper/chats/70/config",
            "rm -r chat-70-notes; ln -s chat-70 chat-70-notes",
            "cd .innkeeper/chats/70/config/projects && mv -- -h-chat-70 -h-chat-hashed",
            "cd .innkeeper/chats/70/config/projects/* && mv s-70.jsonl x && ln -s x s-70.jsonl",
        ] {
            let town = Town::new().await;
            town.run(spoil).await;
            assert!(!town.follow().await, "{spoil}");
            assert_eq!(town.there().await, "", "{spoil}");
        }
    }

    #[tokio::test]
    async fn nothing_is_kept_that_was_copied_while_somebody_asked() {
        let town = Town::new().await;
        let mut asked = turn(5, ThreadId(70), Stage::Waiting);
        asked.thread = ThreadId(70);
        town.house.store.put_turn(&asked).unwrap();
        assert!(!town.follow().await);
        assert_eq!(town.there().await, "");
        asked.stage = Stage::Done;
        town.house.store.put_turn(&asked).unwrap();
        assert!(town.follow().await);
    }

    #[test]
    fn texts_are_replaced_as_they_are() {
        assert_eq!(
            replacing("/a.b/[c]", "/x&y/\\"),
            r"s/\/a\.b\/\[c\]/\/x\&y\/\\/g"
        );
    }
}
