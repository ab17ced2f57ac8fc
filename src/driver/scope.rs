//! What one turn may touch, from its author's own level and the company it keeps.
//!
//! It must never give a turn more than its author holds, nor `ship` where somebody whose words the agent has heard does not
//! hold it.

use std::time::Duration;

use anyhow::Context as _;
use secrecy::SecretString;
use tokio::sync::mpsc;

use crate::agent::command::Shell;
use crate::domain::chat::Chat;
use crate::domain::grant::Level;
use crate::domain::guest::Person;
use crate::domain::ids::{MemberId, Slug, ThreadId};
use crate::domain::project::{Project, Workspace};
use crate::domain::request::Request;
use crate::domain::turn_record::TurnRecord;
use crate::sandbox::{Confinement, Exec, Probe, SandboxError, shell};
use crate::turn::event::Trouble;

use super::follower::{News, while_away};
use super::gate;
use super::house::{AccountBy, House};
use super::turn_directory::Run;

/// Adds the author, and everybody whom the request quotes, to those whom the agent has heard. A turn at `ship` runs at `chat`
/// where one of them does not hold it.
pub async fn keep_company(
    house: &House,
    chat: &mut Chat,
    record: &mut TurnRecord,
) -> anyhow::Result<()> {
    let request = &record.request;
    // Only what is said here changes: people may have changed the chat meanwhile.
    let heard = house
        .store
        .revise_chat(chat.thread, |chat| hear(chat, request))
        .context("could not store the chat")?;
    match heard {
        Some(heard) => *chat = heard,
        None => hear(chat, request),
    }
    let author = request.author.member;
    let first = (chat.projects[0].clone(), record.level);
    for (at, (slug, level)) in std::iter::once(first)
        .chain(record.extras.clone())
        .enumerate()
    {
        if level < Level::Ship || others_hold_ship(house, chat, author, &slug).await? {
            continue;
        }
        match at {
            0 => {
                record.level = Level::Chat;
                record.ship_withheld = true;
            }
            extra => record.extras[extra - 1].1 = Level::Chat,
        }
    }
    Ok(())
}

/// Notes whose words the agent hears with a request.
fn hear(chat: &mut Chat, request: &Request) {
    for quote in request.words_of_others() {
        match quote.by {
            None => chat.heard_unknown = true,
            Some(member) if chat.speakers.iter().any(|one| one.member == member) => {}
            // Roles are read when they matter; until then a quotation brings none.
            Some(member) => chat.speakers.push(Person {
                member,
                name: quote.author.clone().unwrap_or_default(),
                roles: Vec::new(),
            }),
        }
    }
    let author = &request.author;
    chat.speakers
        .retain(|speaker| speaker.member != author.member);
    chat.speakers.push(author.clone());
}

async fn others_hold_ship(
    house: &House,
    chat: &Chat,
    author: MemberId,
    project: &Slug,
) -> anyhow::Result<bool> {
    if chat.heard_unknown {
        return Ok(false);
    }
    for speaker in chat.speakers.iter().filter(|one| one.member != author) {
        let roles = house.ports.surface.roles(chat.guild, speaker.member).await;
        let roles = match roles {
            Ok(Some(roles)) => roles,
            // Whoever left holds nothing, and their words are still in the conversation.
            Ok(None) => return Ok(false),
            Err(error) => {
                tracing::debug!(member = %speaker.member, %error, "roles as they were when last seen count");
                speaker.roles.clone()
            }
        };
        let person = Person {
            roles,
            ..speaker.clone()
        };
        let level = gate::level(house, &person, project)
            .context("could not read the grants of those in the chat")?;
        if level < Some(Level::Ship) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns how the agent's commands run. In a guest's own account others are confined always: it holds the guest's other chats.
pub fn shell_for(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    probe: &Probe,
) -> Result<Shell, Trouble> {
    let author = record.request.author.member;
    let fixed = house
        .catalogue
        .get(&record.project)
        .is_some_and(|project| project.account.is_some());
    let foreign = house.account_by == AccountBy::Guest && !fixed && author != chat.owner;
    match &probe.confinement {
        Confinement::Works if house.agent.confine || foreign => Ok(Shell::Confined),
        Confinement::Works => Ok(Shell::Open),
        Confinement::Missing(_)
            if !foreign && (!house.agent.confine || house.rules.is_owner(author)) =>
        {
            Ok(Shell::Open)
        }
        Confinement::Missing(why) => Err(Trouble::NotConfined(why.clone())),
    }
}

/// Returns the projects of a turn that it has at `ship`, the first one first.
fn at_ship(record: &TurnRecord) -> impl Iterator<Item = &Slug> {
    let extras = record.extras.iter().map(|(slug, level)| (slug, *level));
    std::iter::once((&record.project, record.level))
        .chain(extras)
        .filter(|(_, level)| *level == Level::Ship)
        .map(|(slug, _)| slug)
}

/// Returns the credentials that exist at `ship` alone: of each project that the turn has at that level. Where two projects use
/// the same name, the earlier one's counts.
pub fn credentials(house: &House, record: &TurnRecord) -> Vec<(String, SecretString)> {
    let mut all: Vec<(String, SecretString)> = Vec::new();
    for (name, secret) in at_ship(record)
        .filter_map(|slug| house.ship_env.get(slug))
        .flatten()
    {
        if !all.iter().any(|(taken, _)| taken == name) {
            all.push((name.clone(), secret.clone()));
        }
    }
    all
}

/// Returns what the agent's commands may reach on the network: what the owner listed for the projects that the turn has at
/// `ship`; else nothing.
pub fn domains(house: &House, record: &TurnRecord) -> Vec<String> {
    let mut all: Vec<String> = at_ship(record)
        .filter_map(|slug| house.catalogue.get(slug))
        .flat_map(|project| project.allowed_domains.clone())
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the identity that commits carry: the one who asked, whatever configuration of git is out of sight.
pub fn identity(author: &Person) -> Vec<(String, String)> {
    let shown: String = author
        .name
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '<' | '>'))
        .take(80)
        .collect();
    // Git takes no name that is nothing but punctuation.
    let name = match shown.contains(char::is_alphanumeric) {
        true => shown.trim().to_owned(),
        false => format!("member {}", author.member),
    };
    let address = format!("{}@discord.invalid", author.member);
    ["GIT_AUTHOR", "GIT_COMMITTER"]
        .iter()
        .flat_map(|who| {
            [
                (format!("{who}_NAME"), name.clone()),
                (format!("{who}_EMAIL"), address.clone()),
            ]
        })
        .collect()
}

/// A further project of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Which.
    pub slug: Slug,
    /// What the turn's author holds there.
    pub level: Level,
    /// Its directory: absolute or `~/…`.
    pub directory: String,
    /// Why it cannot be used now, if so.
    pub trouble: Option<String>,
}

/// What was found where a turn is to work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    /// Further projects.
    pub extras: Vec<Extra>,
    /// Paths of the project's own skills, absolute or seen from its directory.
    pub skills: Vec<String>,
    /// The project's `CLAUDE.md`, at most 32 kB; empty: none.
    pub about: String,
}

/// The most bytes of a project's `CLAUDE.md`.
const ABOUT: usize = 32 * 1024;

/// Makes directories that may be made, says of each whether it can be used, then lists the project's skills, then gives its
/// `CLAUDE.md`: a plain file with one link only, since anything else could show what the agent may not read.
const LOOK: &str = r#"take WORK MOST
inn EXTRAS | while read -r make dir; do
  [ "$make" = no ] || mkdir -p -- "$dir" 2>/dev/null
  if [ ! -d "$dir" ]; then echo 'its directory is missing'
  elif [ ! -w "$dir" ] || [ ! -x "$dir" ]; then echo 'its directory is not writable'
  else echo ok; fi
done
cd -- "$WORK" 2>/dev/null || { echo; exit 0; }
for file in .claude/skills/*/SKILL.md; do [ ! -f "$file" ] || printf '%s\n' "$file"; done | head -n 50
echo
file=CLAUDE.md
[ -f $file ] && [ ! -h $file ] && [ "$(stat -c %h $file)" = 1 ] && head -c "$MOST" $file
exit 0
"#;

/// Looks at the places of a turn, and prepares those of further projects.
pub async fn look(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    news: &mpsc::Sender<News>,
) -> Result<Ground, Trouble> {
    let mut extras: Vec<Extra> = record
        .extras
        .iter()
        .map(|(slug, level)| Extra {
            slug: slug.clone(),
            level: *level,
            directory: directory(house, slug, chat.thread),
            trouble: None,
        })
        .collect();
    let run = super::launch::run_of(chat, record);
    let mut lines = String::new();
    for extra in &mut extras {
        let project = house.catalogue.get(&extra.slug);
        if let Err(trouble) = clone(house, &run, project, &extra.directory, news).await? {
            extra.trouble = Some(trouble);
        }
        let make = match project.map(|project| &project.workspace) {
            Some(Workspace::Scratch) => "yes",
            _ => "no",
        };
        let path = shell::path(&extra.directory).map_err(super::launch::trouble)?;
        lines.push_str(&format!("{make} {}\n", path.replace('\n', "?")));
    }
    let exec = Exec {
        script: shell::script(LOOK),
        vars: vec![
            ("EXTRAS", lines.into_bytes()),
            ("MOST", ABOUT.to_string().into_bytes()),
            ("WORK", path_of(&chat.workdir)?),
        ],
        limit: Duration::from_secs(30),
        most: 128 * 1024,
    };
    let done = while_away(news, || {
        house.ports.sandbox.exec(&chat.account, exec.clone())
    });
    let done = done.await.map_err(super::launch::trouble)?;
    Ok(read(&done.out, extras))
}

fn path_of(path: &str) -> Result<Vec<u8>, Trouble> {
    Ok(shell::path(path)
        .map_err(super::launch::trouble)?
        .into_bytes())
}

fn read(out: &[u8], mut extras: Vec<Extra>) -> Ground {
    let text = String::from_utf8_lossy(out);
    let mut rest = &*text;
    let mut line = || {
        let (line, more) = rest.split_once('\n')?;
        rest = more;
        Some(line.to_owned())
    };
    for extra in &mut extras {
        let said = line().unwrap_or_else(|| "its directory could not be looked at".to_owned());
        if said != "ok" {
            extra.trouble.get_or_insert(said);
        }
    }
    let skills = std::iter::from_fn(&mut line)
        .take_while(|line| !line.is_empty())
        .collect();
    Ground {
        extras,
        skills,
        about: rest.to_owned(),
    }
}

/// Returns where a further project lies: at its place, or in a directory beside the chat's own.
pub fn directory(house: &House, slug: &Slug, thread: ThreadId) -> String {
    match house.catalogue.get(slug).map(|project| &project.workspace) {
        Some(Workspace::InPlace { path }) => path.clone(),
        _ => house.workdir.replace("{chat}", &format!("{thread}-{slug}")),
    }
}

/// Clones a project's repository, once; what a clone that was cut short left is removed first. Hooks of the repository run
/// nothing: a fresh clone has none. It carries the run's mark, so that it ends with the run.
const CLONE: &str = r#"
take REPO DIR RUN
export INNKEEPER_RUN="$RUN"
[ ! -e "$DIR" ] || exit 0
rm -rf -- "$DIR.new"
said=$(GIT_TERMINAL_PROMPT=0 git clone --quiet -- "$REPO" "$DIR.new" 2>&1 && mv -T -- "$DIR.new" "$DIR" 2>&1) && exit 0
code=$?
printf %s "$said" | tail -c 300
exit $code
"#;

/// Returns where the clones of a turn's projects lie while they are not whole.
pub fn unfinished_clones(house: &House, chat: &Chat, record: &TurnRecord) -> Vec<String> {
    let extras = record.extras.iter();
    let extras = extras.map(|(slug, _)| (slug, directory(house, slug, chat.thread)));
    std::iter::once((&record.project, chat.workdir.clone()))
        .chain(extras)
        .filter(|(slug, _)| {
            let project = house.catalogue.get(slug);
            project.is_some_and(|it| matches!(it.workspace, Workspace::Clone { .. }))
        })
        .map(|(_, directory)| format!("{directory}.new"))
        .collect()
}

/// How long a clone may take.
const CLONE_LIMIT: Duration = Duration::from_secs(300);

/// Clones a project's repository into a directory, if that is how it is worked on. Inside: why it could not be.
pub async fn clone(
    house: &House,
    run: &Run,
    project: Option<&Project>,
    directory: &str,
    news: &mpsc::Sender<News>,
) -> Result<Result<(), String>, Trouble> {
    let Some(Workspace::Clone { repo }) = project.map(|project| &project.workspace) else {
        return Ok(Ok(()));
    };
    let exec = Exec {
        script: shell::script(CLONE),
        vars: vec![
            ("REPO", repo.clone().into_bytes()),
            ("DIR", path_of(directory)?),
            ("RUN", run.mark().into_bytes()),
        ],
        limit: CLONE_LIMIT,
        most: 64 * 1024,
    };
    let done = while_away(news, || {
        house.ports.sandbox.exec(&run.account, exec.clone())
    })
    .await;
    Ok(match done {
        Ok(done) if done.code == 0 => Ok(()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.out);
            Err(format!(
                "its repository could not be cloned: {}",
                said.split_whitespace().collect::<Vec<_>>().join(" ")
            ))
        }
        Err(SandboxError::Slow(limit)) => Err(format!(
            "its repository could not be cloned within {} seconds",
            limit.as_secs()
        )),
        Err(error) => return Err(super::launch::trouble(error)),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::domain::grant::Subject;
    use crate::domain::ids::{RoleId, ThreadId};
    use crate::domain::project::Catalogue;
    use crate::domain::request::Quote;
    use crate::domain::samples::{ADA, OWNER, chat, grant, person, project, rules, slug, turn};
    use crate::domain::turn_record::Stage;
    use crate::driver::clock::SystemClock;
    use crate::driver::fakes::{FakeSurface, house};
    use crate::driver::launch::run_of;
    use crate::store::Store;

    const BEN: MemberId = MemberId(3);
    const CREW: RoleId = RoleId(70);

    /// A house with three projects, and a chat of Ada's on the first.
    struct Town {
        _home: tempfile::TempDir,
        surface: FakeSurface,
        house: Arc<House>,
        chat: Chat,
    }

    impl Town {
        fn new() -> Town {
            let home = tempfile::tempdir().unwrap();
            let store = Store::open(&home.path().join("store")).unwrap();
            let surface = FakeSurface::new(Arc::new(SystemClock));
            let mut site = project("site");
            site.workspace = Workspace::Clone {
                repo: "source".to_owned(),
            };
            let mut shop = project("shop");
            shop.workspace = Workspace::InPlace {
                path: "/no/such/shop".to_owned(),
            };
            let catalogue = Catalogue(vec![site, project("notes"), shop]);
            let homes = home.path().join("homes");
            Town {
                house: house(&surface, &store, rules(), catalogue, &homes),
                surface,
                chat: chat(ThreadId(9)),
                _home: home,
            }
        }

        async fn run(&self, script: &str) -> String {
            let exec = Exec {
                script: script.to_owned(),
                vars: vec![],
                limit: Duration::from_secs(60),
                most: 1 << 20,
            };
            let done = self.house.ports.sandbox.exec(&self.chat.account, exec);
            String::from_utf8_lossy(&done.await.unwrap().out).into_owned()
        }

        /// Lets somebody who holds `ship` here ask, and returns at which level the turn runs and whether that was lowered.
        async fn asks(&mut self, member: MemberId) -> (Level, bool) {
            let mut record = turn(1, ThreadId(9), Stage::Held);
            record.request.author = person(member, &[]);
            let author = record.request.author.clone();
            record.level = gate::level(&self.house, &author, &slug("site"))
                .unwrap()
                .unwrap_or(Level::Chat);
            keep_company(&self.house, &mut self.chat, &mut record)
                .await
                .unwrap();
            (record.level, record.ship_withheld)
        }
    }

    #[tokio::test]
    async fn ship_counts_only_among_people_who_all_hold_it() {
        let mut town = Town::new();
        assert_eq!(town.asks(OWNER).await, (Level::Ship, false));
        let held = grant(Subject::Member(ADA), "site", Level::Ship, None);
        town.house.store.give(&held).unwrap();
        assert_eq!(town.asks(ADA).await, (Level::Ship, false));
        let held = grant(Subject::Role(CREW), "site", Level::Ship, None);
        town.house.store.give(&held).unwrap();
        assert_eq!(town.asks(BEN).await, (Level::Chat, false));
        assert_eq!(town.asks(ADA).await, (Level::Chat, true));
        // A role that is held now counts, and ends with the membership.
        town.surface.gives_roles(BEN, Some(vec![CREW]));
        assert_eq!(town.asks(ADA).await, (Level::Ship, false));
        town.surface.gives_roles(BEN, None);
        assert_eq!(town.asks(OWNER).await, (Level::Chat, true));
        assert_eq!(town.chat.speakers.len(), 3);
    }

    #[tokio::test]
    async fn whoever_is_quoted_to_the_agent_is_company() {
        let quote = |by| Quote {
            author: Some("somebody".to_owned()),
            by,
            message: None,
            text: "push it".to_owned(),
        };
        let table = [
            ("nobody", vec![], vec![], true),
            ("the author", vec![Some(OWNER)], vec![Some(OWNER)], true),
            (
                "a remark of one without ship",
                vec![Some(BEN)],
                vec![],
                false,
            ),
            (
                "a reply to one without ship",
                vec![],
                vec![Some(BEN)],
                false,
            ),
            ("a remark of one with ship", vec![Some(ADA)], vec![], true),
            ("a forwarded message", vec![], vec![None], false),
        ];
        for (whose, said, quoted, ships) in table {
            let mut town = Town::new();
            let held = grant(Subject::Member(ADA), "site", Level::Ship, None);
            town.house.store.give(&held).unwrap();
            town.surface.gives_roles(BEN, Some(vec![]));
            let mut record = turn(1, ThreadId(9), Stage::Held);
            record.request.author = person(OWNER, &[]);
            record.request.context = said.into_iter().map(quote).collect();
            record.request.quotes = quoted.into_iter().map(quote).collect();
            record.level = Level::Ship;
            keep_company(&town.house, &mut town.chat, &mut record)
                .await
                .unwrap();
            assert_eq!(record.level == Level::Ship, ships, "{whose}");
            assert_eq!(record.ship_withheld, !ships, "{whose}");
            // What was heard stays heard, also when nothing is quoted any more.
            assert_eq!(town.asks(OWNER).await.0 == Level::Ship, ships, "{whose}");
        }
    }

    #[tokio::test]
    async fn each_projects_credentials_come_with_ship_on_that_project() {
        let mut town = Town::new();
        let house = Arc::get_mut(&mut town.house).unwrap();
        let mut catalogue = (*house.catalogue).clone();
        for (at, name) in ["site", "notes"].into_iter().enumerate() {
            catalogue.0[at].allowed_domains = vec![format!("{name}.example")];
            let secrets = [("TOKEN", name), (name, "more")];
            let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned().into()));
            house.ship_env.insert(slug(name), secrets.to_vec());
        }
        house.catalogue = Arc::new(catalogue);
        let (chat, ship) = (Level::Chat, Level::Ship);
        let table = [
            (chat, chat, vec![], vec![]),
            (
                ship,
                chat,
                vec!["TOKEN=site", "site=more"],
                vec!["site.example"],
            ),
            (
                chat,
                ship,
                vec!["TOKEN=notes", "notes=more"],
                vec!["notes.example"],
            ),
            (
                ship,
                ship,
                vec!["TOKEN=site", "site=more", "notes=more"],
                vec!["notes.example", "site.example"],
            ),
        ];
        for (first, extra, secrets, names) in table {
            let mut record = turn(1, ThreadId(9), Stage::Held);
            record.level = first;
            record.extras = vec![(slug("notes"), extra)];
            let given = credentials(&town.house, &record).into_iter();
            let given: Vec<String> = given
                .map(|(name, secret)| format!("{name}={}", secret.expose_secret()))
                .collect();
            assert_eq!(given, secrets);
            assert_eq!(domains(&town.house, &record), names);
        }
    }

    #[tokio::test]
    async fn what_people_changed_meanwhile_stays_when_company_is_noted() {
        let mut town = Town::new();
        let mut newer = town.chat.clone();
        newer.model = "sonnet".to_owned();
        town.house.store.put_chat(&newer).unwrap();
        town.asks(ADA).await;
        let kept = town.house.store.chat(ThreadId(9)).unwrap().unwrap();
        assert_eq!((kept.model.as_str(), kept.speakers.len()), ("sonnet", 1));
        assert_eq!(town.chat, kept);
    }

    #[tokio::test]
    async fn a_repository_is_cloned_once_and_its_failure_says_why() {
        let town = Town::new();
        let (news, _kept) = mpsc::channel(8);
        let site = town.house.catalogue.get(&slug("site"));
        let run = run_of(&town.chat, &turn(1, ThreadId(9), Stage::Held));
        let clone = || clone(&town.house, &run, site, "~/chat", &news);
        let why = clone().await.unwrap().unwrap_err();
        assert!(why.contains("could not be cloned: fatal:"), "{why}");
        let source = "mkdir -p chat.new/left source && cd source && git init -q && echo a >a && git add a \
            && git -c user.name=a -c user.email=a@example.org commit -qm a";
        town.run(source).await;
        clone().await.unwrap().unwrap();
        town.run("echo mine >chat/b").await;
        clone().await.unwrap().unwrap();
        assert_eq!(
            town.run("cat chat/a chat/b; ls").await,
            "a\nmine\nchat\nsource\n"
        );
    }

    #[tokio::test]
    async fn the_ground_is_looked_at_and_a_link_gives_nothing_away() {
        let town = Town::new();
        let (news, _kept) = mpsc::channel(8);
        let mut record = turn(1, ThreadId(9), Stage::Held);
        record.extras = vec![(slug("notes"), Level::Chat), (slug("shop"), Level::Ship)];
        town.run(
            "mkdir -p chat/.claude/skills/plot; echo hush >secret; ln -s ../secret chat/CLAUDE.md
            echo x >chat/.claude/skills/plot/SKILL.md",
        )
        .await;
        let ground = look(&town.house, &town.chat, &record, &news).await.unwrap();
        assert_eq!(ground.about, "");
        assert_eq!(ground.skills, [".claude/skills/plot/SKILL.md"]);
        assert_eq!(ground.extras[0].directory, "~/chat-9-notes");
        assert_eq!(ground.extras[0].trouble, None);
        assert_eq!(
            ground.extras[1].trouble.as_deref(),
            Some("its directory is missing")
        );
        town.run("cd chat; rm CLAUDE.md; ln ../secret CLAUDE.md")
            .await;
        let ground = look(&town.house, &town.chat, &record, &news).await.unwrap();
        assert_eq!(ground.about, "");
        town.run("cd chat; rm CLAUDE.md; yes tabs | head -c 40000 >CLAUDE.md")
            .await;
        let ground = look(&town.house, &town.chat, &record, &news).await.unwrap();
        assert_eq!(ground.about.len(), ABOUT);
    }

    fn extra(name: &str, trouble: Option<&str>) -> Extra {
        Extra {
            slug: slug(name),
            level: Level::Chat,
            directory: format!("/srv/{name}"),
            trouble: trouble.map(str::to_owned),
        }
    }

    #[test]
    fn what_was_found_is_read_line_by_line_and_the_rest_is_the_projects_own_text() {
        let before = vec![
            extra("a", None),
            extra("b", None),
            extra("c", Some("no clone")),
        ];
        let out = b"ok\nits directory is missing\nits directory is missing\n.claude/skills/x/SKILL.md\n\n# Site\n\nUse tabs.";
        let ground = read(out, before);
        let troubles: Vec<_> = ground
            .extras
            .iter()
            .map(|extra| extra.trouble.as_deref())
            .collect();
        assert_eq!(
            troubles,
            [None, Some("its directory is missing"), Some("no clone")]
        );
        assert_eq!(ground.skills, [".claude/skills/x/SKILL.md"]);
        assert_eq!(ground.about, "# Site\n\nUse tabs.");
    }

    #[test]
    fn a_cut_answer_makes_no_project_usable() {
        let ground = read(b"ok", vec![extra("a", None)]);
        assert!(ground.extras[0].trouble.is_some());
        assert!(ground.about.is_empty() || ground.about == "ok");
    }

    #[test]
    fn commits_carry_a_name_that_git_takes() {
        for (name, shown) in [
            ("Ada", "Ada"),
            ("A<b>\nc", "Abc"),
            ("···", "member 2"),
            ("", "member 2"),
        ] {
            let mut author = person(ADA, &[]);
            author.name = name.to_owned();
            let all = identity(&author);
            assert_eq!(all[0], ("GIT_AUTHOR_NAME".to_owned(), shown.to_owned()));
            assert_eq!(
                all[3],
                (
                    "GIT_COMMITTER_EMAIL".to_owned(),
                    "2@discord.invalid".to_owned()
                )
            );
        }
    }
}
