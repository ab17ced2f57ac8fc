//! Every way in, tried by every kind of person; and the stories of access, of the choice of a project, and of roles that
//! change while a turn runs. No turn ever runs here: what is let in waits in the store.

use std::sync::Arc;
use std::time::Duration;

use super::tests::office_of;
use super::*;
use crate::domain::chat::{Chat, Listen};
use crate::domain::grant::{Grant, Level, Refusal, Subject};
use crate::domain::guest::{Guest, Person};
use crate::domain::ids::{
    ChannelId, GuildId, InteractionId, MemberId, MessageId, RoleId, ThreadId, TurnId,
};
use crate::domain::project::{Catalogue, Project};
use crate::domain::request::{Request, Undecided};
use crate::domain::samples::{
    ADMINS, GUILD, OWNER, chat, grant, person, project, rules, slug, turn, usd,
};
use crate::domain::time::Moment;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::domain::venue::{Place, PlaceKind};
use crate::driver::clock::TokioClock;
use crate::driver::desk::Desk;
use crate::driver::fakes::{FakeSurface, Said, house};
use crate::driver::house::House;
use crate::driver::inbound::{
    ChatWant, Inbound, InboundAsk, InboundChat, InboundMessage, InboundPress, InboundStop, Reply,
};
use crate::driver::ports::{Button, Choice, Decide, Post, SurfaceError};
use crate::driver::{gate, newest};
use crate::present::notice;
use crate::present::{office as say, office_chats as words};
use crate::store::Store;

/// 2026-11-15 12:00 UTC.
const NOW: Moment = Moment(1_794_744_000_000);
/// The first id that Discord makes at [`NOW`].
const IDS: u64 = ((NOW.0 as u64) - 1_420_070_400_000) << 22;
const CHANNEL: ChannelId = ChannelId(600);
/// A channel that is bound to no project.
const HALL: ChannelId = ChannelId(601);
const ADMIN_CHANNEL: ChannelId = ChannelId(602);
const THREAD: ThreadId = ThreadId(700);
/// Opened the chat in [`THREAD`] and asked for the turns there.
const HOST: MemberId = MemberId(50);
const FOREIGN: GuildId = GuildId(999);

struct Town {
    _home: tempfile::TempDir,
    house: Arc<House>,
    surface: FakeSurface,
    desk: Desk,
    office: Office,
}

impl Town {
    fn open() -> Town {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("store")).unwrap();
        let surface = FakeSurface::new(Arc::new(TokioClock::starting_at(NOW)));
        let rules = crate::domain::rules::Rules {
            admin_channel: Some(ADMIN_CHANNEL),
            ..rules()
        };
        let site = Project {
            channels: vec![CHANNEL],
            ..project("site")
        };
        let catalogue = Catalogue(vec![site, project("notes"), project("shop")]);
        let house = house(&surface, &store, rules, catalogue, home.path());
        let office = office_of(&house);
        Town {
            _home: home,
            desk: Desk::new(house.clone()),
            house,
            surface,
            office,
        }
    }

    fn store(&self) -> &Store {
        &self.house.store
    }

    fn give(&self, member: MemberId, name: &str, level: Level, until: Option<Moment>) {
        let grant = grant(Subject::Member(member), name, level, until);
        self.store().give(&grant).unwrap();
    }

    fn budget(&self, member: MemberId) {
        let guest = Guest {
            budget: Some(usd(5.0)),
            ..Guest::new(member)
        };
        self.store().put_guest(&guest).unwrap();
    }

    /// The chat of the host, with one request that waits and one that is done and may be tried again.
    fn host(&self) -> Chat {
        let chat = Chat {
            owner: HOST,
            place: THREAD.channel(),
            parent: Some(CHANNEL),
            ..chat(THREAD)
        };
        self.store().put_chat(&chat).unwrap();
        for (id, stage) in [(800, Stage::Waiting), (801, Stage::Done)] {
            self.store().put_turn(&of_host(id, stage)).unwrap();
        }
        chat
    }

    async fn said_in(&self, channel: ChannelId) -> Post {
        let there = |said: &Said| match said {
            Said::Post {
                channel: at, post, ..
            } if *at == channel => Some(post.clone()),
            _ => None,
        };
        let said = self
            .surface
            .until(|said| said.iter().any(|said| there(said).is_some()))
            .await;
        said.iter().rev().find_map(there).unwrap()
    }

    /// Waits for a post that begins so.
    async fn told(&self, beginning: &str) -> Post {
        let found = |said: &[Said]| {
            said.iter().find_map(|said| match said {
                Said::Post { post, .. } if post.text.starts_with(beginning) => Some(post.clone()),
                _ => None,
            })
        };
        found(&self.surface.until(|said| found(said).is_some()).await).unwrap()
    }

    async fn says(&self, by: &Person, place: Place, id: u64) {
        let message = InboundMessage {
            id: MessageId(IDS + id),
            place,
            author: by.clone(),
            text: "plot it".to_owned(),
            addressed: true,
            for_others: false,
            withheld: false,
            attachments: Vec::new(),
            quotes: Vec::new(),
            described: Vec::new(),
        };
        self.desk.inbound(Inbound::Message(message)).await;
    }

    async fn presses(&self, by: &Person, guild: GuildId, id: String, values: &[&str]) -> Reply {
        let press = InboundPress {
            id: InteractionId(IDS + 90_000 + by.member.0),
            guild,
            channel: CHANNEL,
            message: MessageId(900 + by.member.0),
            by: by.clone(),
            custom_id: id,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        match self.office.access(&press).await {
            Some(reply) => reply,
            None => self.desk.press(press).await,
        }
    }

    fn has_turn(&self, id: u64) -> bool {
        self.store().turn(TurnId(IDS + id)).unwrap().is_some()
    }
}

fn of_host(id: u64, stage: Stage) -> TurnRecord {
    let mut record = TurnRecord {
        retry: stage == Stage::Done,
        ..turn(id, THREAD, stage)
    };
    record.request.author = person(HOST, &[]);
    record
}

fn place(guild: GuildId, channel: ChannelId) -> Place {
    let kind = match channel {
        CHANNEL | HALL => PlaceKind::Text,
        _ => PlaceKind::Thread,
    };
    Place {
        guild,
        channel,
        parent: (kind == PlaceKind::Thread).then_some(CHANNEL),
        kind,
    }
}

/// A kind of person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stranger,
    View,
    Elsewhere,
    Chat,
    Ship,
    Suspended,
    Expired,
    Admin,
    Owner,
    /// Runs another server, and there is somebody with every right.
    Foreign,
}

use Kind::{Admin, Elsewhere, Expired, Foreign, Owner, Ship, Stranger, Suspended, View};

const KINDS: [Kind; 10] = [
    Stranger,
    View,
    Elsewhere,
    Kind::Chat,
    Ship,
    Suspended,
    Expired,
    Admin,
    Owner,
    Foreign,
];

impl Kind {
    fn comes(self, town: &Town) -> (Person, GuildId) {
        let member = MemberId(10 + self as u64);
        town.budget(member);
        let grants: (&str, Level, Option<Moment>) = match self {
            View => ("site", Level::View, None),
            Elsewhere => ("notes", Level::Chat, None),
            Kind::Chat | Suspended => ("site", Level::Chat, None),
            Ship => ("site", Level::Ship, None),
            Expired => ("site", Level::Chat, Some(NOW)),
            Stranger | Admin | Foreign => return (self.bare(member), self.guild()),
            Owner => return (person(OWNER, &[]), GUILD),
        };
        let (name, level, until) = grants;
        town.give(member, name, level, until);
        if self == Suspended {
            let guest = town.store().guest(member).unwrap();
            let guest = Guest {
                suspended: true,
                ..guest
            };
            town.store().put_guest(&guest).unwrap();
        }
        (person(member, &[]), GUILD)
    }

    fn bare(self, member: MemberId) -> Person {
        match self {
            Admin => person(member, &[ADMINS]),
            Foreign => person(member, &[RoleId(FOREIGN.0)]),
            _ => person(member, &[]),
        }
    }

    fn guild(self) -> GuildId {
        if self == Foreign { FOREIGN } else { GUILD }
    }
}

/// A way in.
#[derive(Clone, Debug)]
enum Door {
    Mention,
    MessageInThread,
    Ask,
    StopButton,
    StopCommand,
    RetryButton,
    DetailsButton,
    OfChat(ChatWant),
    MenuOfAnother,
    OwnMenu,
    ProjectsToAsk,
    ProjectsToGrant,
    ModelsToAsk,
    Projects,
    Grant,
    Revoke,
    Grants,
    Act(Act),
    AskForAccess,
    DecideButton,
    AccessMenu,
}

impl Door {
    /// Tries it, and returns whether the person came in.
    async fn lets_in(&self, town: &Town, (by, guild): (Person, GuildId)) -> bool {
        let n = by.member.0;
        let to_60 = Subject::Member(MemberId(60));
        match self {
            Door::Mention => {
                town.says(&by, place(guild, CHANNEL), n).await;
                town.has_turn(n)
            }
            Door::MessageInThread => {
                town.says(&by, place(guild, THREAD.channel()), n).await;
                town.has_turn(n)
            }
            Door::Ask => {
                let ask = InboundAsk {
                    id: InteractionId(IDS + n),
                    place: place(guild, CHANNEL),
                    author: by,
                    project: "site".into(),
                    prompt: "plot it".into(),
                    model: None,
                    file: None,
                };
                town.desk.ask(ask).await;
                town.has_turn(n)
            }
            Door::StopButton | Door::StopCommand => {
                town.store()
                    .put_turn(&of_host(800, Stage::Waiting))
                    .unwrap();
                if matches!(self, Door::StopButton) {
                    let id = Button::Stop(TurnId(800)).id();
                    town.presses(&by, guild, id, &[]).await;
                } else {
                    let id = InteractionId(IDS + n);
                    let thread = THREAD;
                    town.desk.stop(InboundStop { id, thread, by }).await;
                }
                town.store().turn(TurnId(800)).unwrap().unwrap().stage == Stage::Done
            }
            Door::RetryButton => {
                town.store().put_turn(&of_host(801, Stage::Done)).unwrap();
                let id = Button::Retry(TurnId(801)).id();
                let reply = town.presses(&by, guild, id, &[]).await;
                reply.text == notice::trying_again()
            }
            Door::DetailsButton => {
                let id = Button::Details(TurnId(801)).id();
                let reply = town.presses(&by, guild, id, &[]).await;
                reply.text == notice::details_gone() || !reply.files.is_empty()
            }
            Door::OfChat(want) => {
                town.host();
                let call = InboundChat {
                    id: InteractionId(IDS + n),
                    place: place(guild, THREAD.channel()),
                    by,
                    want: want.clone(),
                };
                let reply = town.desk.chat_command(call).await;
                let text = reply.text;
                text.starts_with('✓') || text == notice::details_gone() || !reply.files.is_empty()
            }
            Door::MenuOfAnother | Door::OwnMenu => {
                let own = matches!(self, Door::OwnMenu);
                let author = if own { by.clone() } else { person(HOST, &[]) };
                town.store()
                    .put_undecided(&undecided(IDS + n, author))
                    .unwrap();
                let id = Choice::Project(TurnId(IDS + n)).id();
                town.presses(&by, guild, id, &["site"]).await;
                town.has_turn(n)
            }
            Door::ProjectsToAsk => {
                let seen = town.office.complete_projects(&by, guild, "", Level::Chat);
                seen.iter().any(|(slug, _)| slug == "site")
            }
            Door::ProjectsToGrant => !town.office.complete_any_project(&by, guild, "").is_empty(),
            Door::ModelsToAsk => !town.office.complete_models(&by, guild, "").is_empty(),
            Door::Projects => {
                let reply = town.office.act(&by, guild, Act::Projects).await;
                reply.text.contains("`site`")
            }
            // The discord room lets nobody of another server get as far as these three, which therefore are not told where
            // they are used; what makes an admin is a role of ours.
            Door::Grant => {
                let text = town
                    .office
                    .grant(&by, to_60, "site", Level::Chat, None)
                    .await;
                text.starts_with('✓')
            }
            Door::Revoke => {
                town.give(MemberId(60), "site", Level::Chat, None);
                let (text, _) = town.office.revoke(&by, to_60, "site").await;
                text.starts_with('✓')
            }
            Door::Grants => town.office.grants(&by, None) != say::admins_only(),
            Door::Act(act) => {
                let reply = town.office.act(&by, guild, act.clone()).await;
                reply.text != say::admins_only()
            }
            Door::AskForAccess => {
                let id = Button::Ask(Some(slug("site"))).id();
                let reply = town.presses(&by, guild, id, &[]).await;
                reply.text == words::access_asked()
            }
            Door::DecideButton => {
                let id = decide(Some(Level::Ship)).id();
                town.presses(&by, guild, id, &[]).await;
                let given = town.store().grant(to_60, &slug("site")).unwrap();
                given.is_some()
            }
            Door::AccessMenu => {
                let choice = Choice::Access {
                    member: MemberId(60),
                    channel: CHANNEL,
                };
                let reply = town.presses(&by, guild, choice.id(), &["site"]).await;
                reply.text != say::admins_only()
            }
        }
    }
}

fn decide(level: Option<Level>) -> Button {
    Button::Decide(Decide {
        member: MemberId(60),
        channel: CHANNEL,
        project: Some(slug("site")),
        level,
    })
}

fn undecided(id: u64, author: Person) -> Undecided {
    Undecided {
        project: None,
        turn: TurnId(id),
        request: Request {
            author,
            message: Some(MessageId(id)),
            ..turn(1, THREAD, Stage::Waiting).request
        },
        place: place(GUILD, HALL),
        at: NOW,
    }
}

#[tokio::test]
async fn every_door_lets_in_exactly_those_who_may() {
    let runs: &[Kind] = &[Kind::Chat, Ship, Owner];
    let sees: &[Kind] = &[View, Kind::Chat, Ship, Owner];
    let admins: &[Kind] = &[Admin, Owner];
    let sixty = MemberId(60);
    let mut table = vec![
        (Door::Mention, runs),
        (Door::MessageInThread, runs),
        (Door::Ask, runs),
        (Door::RetryButton, runs),
        (Door::OwnMenu, runs),
        (Door::MenuOfAnother, &[]),
        (Door::StopButton, admins),
        (Door::StopCommand, admins),
        (Door::DetailsButton, sees),
        (Door::OfChat(ChatWant::Details), sees),
        (Door::ProjectsToAsk, runs),
        (Door::ModelsToAsk, &[Elsewhere, Kind::Chat, Ship, Owner]),
        (Door::ProjectsToGrant, admins),
        (Door::Projects, sees),
        (Door::Grant, admins),
        (Door::Revoke, admins),
        (Door::Grants, admins),
        (
            Door::AskForAccess,
            &[Stranger, View, Elsewhere, Expired, Admin],
        ),
        (Door::DecideButton, admins),
        (Door::AccessMenu, admins),
    ];
    // An admin without a grant may not even work in the chat, and the host's chat is nobody else's.
    for want in [
        ChatWant::New,
        ChatWant::Fork,
        ChatWant::Model("haiku".into()),
        ChatWant::Listen(Listen::Mentions),
        ChatWant::AddProject("notes".into()),
    ] {
        table.push((Door::OfChat(want), &[Owner]));
    }
    for act in [
        Act::Guest(sixty),
        Act::Suspend(sixty),
        Act::Restore(sixty),
        Act::Models(sixty, None),
        Act::GuestBudget(sixty, Some(1.0)),
        Act::ProjectBudget("site".into(), Some(1.0)),
        Act::Spend {
            member: None,
            project: None,
            month: None,
        },
        Act::Audit,
        Act::Status,
        Act::Pause("why".into()),
        Act::Resume,
    ] {
        table.push((Door::Act(act), admins));
    }
    for (door, expected) in table {
        let town = Town::open();
        town.host();
        for kind in KINDS {
            let visitor = kind.comes(&town);
            let came_in = door.lets_in(&town, visitor).await;
            assert_eq!(
                came_in,
                expected.contains(&kind),
                "{kind:?} at {door:?} (a member's number is {})",
                10 + kind as u64
            );
            // The next visitor finds the door as this one did.
            town.store()
                .revoke(Subject::Member(sixty), &slug("site"))
                .unwrap();
        }
    }
}

fn texts(post: &Post) -> Vec<&'static str> {
    post.buttons.iter().map(Button::label).collect()
}

#[tokio::test]
async fn access_is_asked_for_granted_and_told_to_both() {
    let town = Town::open();
    let (cleo, olga) = (person(MemberId(60), &[]), person(OWNER, &[]));
    town.says(&cleo, place(GUILD, CHANNEL), 1).await;
    let refused = town.said_in(CHANNEL).await;
    assert_eq!(
        refused.text,
        "You have no access to `site`. An admin can grant `chat` on it with `/grant`."
    );
    assert_eq!(texts(&refused), ["Ask for access"]);
    // A second message that day changes nothing.
    town.says(&cleo, place(GUILD, CHANNEL), 2).await;
    let reply = town
        .presses(&cleo, GUILD, refused.buttons[0].id(), &[])
        .await;
    assert_eq!(reply.text, words::access_asked());
    let asked = town.said_in(ADMIN_CHANNEL).await;
    assert_eq!(
        asked.text,
        "<@60> (`member 60`) asks for access to `site`, in <#600>."
    );
    assert_eq!(
        texts(&asked),
        ["Grant view", "Grant chat", "Grant ship", "No"]
    );
    assert_eq!(asked.ping, None);
    let again = town
        .presses(&cleo, GUILD, refused.buttons[0].id(), &[])
        .await;
    assert_eq!(again.text, words::access_asked_before());

    // Who asks cannot answer; an admin can, once.
    let chat = asked.buttons[1].id();
    let own = town.presses(&cleo, GUILD, chat.clone(), &[]).await;
    assert_eq!(own.text, say::admins_only());
    let done = town.presses(&olga, GUILD, chat, &[]).await;
    assert!(
        done.text.contains("now holds **chat** on `site`"),
        "{}",
        done.text
    );
    let told = town
        .told("<@60>, <@1> granted you **chat** on `site`.")
        .await;
    assert_eq!(told.ping, Some(MemberId(60)));
    let closed = town.surface.said().into_iter().find_map(|said| match said {
        Said::Edit {
            message: MessageId(901),
            post,
        } => Some(post),
        _ => None,
    });
    let closed = closed.unwrap();
    assert_eq!(closed.text, "✓ <@1> granted <@60> **chat** on `site`.");
    assert!(closed.buttons.is_empty() && closed.menu.is_none());
    let late = town.presses(&olga, GUILD, asked.buttons[2].id(), &[]).await;
    assert_eq!(late.text, words::decided_already());
    let given = town
        .store()
        .grant(Subject::Member(MemberId(60)), &slug("site"));
    assert_eq!(given.unwrap().map(|grant| grant.level), Some(Level::Chat));
    assert_eq!(
        town.store().audits(1).unwrap()[0].what,
        "grant member 60 site"
    );
    let refusals = town
        .surface
        .said()
        .into_iter()
        .filter(|said| matches!(said, Said::Post { post, .. } if post.text == refused.text));
    assert_eq!(refusals.count(), 1);
}

#[tokio::test]
async fn of_two_who_try_a_turn_again_one_does_and_a_refusal_takes_nothing_away() {
    let town = Town::open();
    town.host();
    let retry = Button::Retry(TurnId(801)).id();
    let people = [61, 62].map(|id| person(MemberId(id), &[]));
    for person in &people {
        town.give(person.member, "site", Level::Chat, None);
        town.budget(person.member);
    }
    let stranger = person(MemberId(60), &[]);
    let refused = town.presses(&stranger, GUILD, retry.clone(), &[]).await;
    assert!(refused.text.contains("no access"), "{}", refused.text);
    let [one, other] = &people;
    let (one, other) = tokio::join!(
        town.presses(one, GUILD, retry.clone(), &[]),
        town.presses(other, GUILD, retry.clone(), &[]),
    );
    let mut said = [one.text, other.text];
    said.sort();
    let mut expected = [notice::trying_again(), notice::seen_already()];
    expected.sort();
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn neither_a_question_about_access_nor_its_answer_is_lost_while_discord_is_away() {
    let town = Town::open();
    let (cleo, olga) = (person(MemberId(60), &[]), person(OWNER, &[]));
    let ask = Button::Ask(Some(slug("site"))).id();
    let away = || SurfaceError::Away("no route".to_owned());
    town.surface.fails("post", away());
    let reply = town.presses(&cleo, GUILD, ask.clone(), &[]).await;
    assert_eq!(reply.text, words::admins_away());
    let reply = town.presses(&cleo, GUILD, ask, &[]).await;
    assert_eq!(reply.text, words::access_asked());
    let asked = town.said_in(ADMIN_CHANNEL).await;
    town.surface.fails("post", away());
    town.presses(&olga, GUILD, asked.buttons[1].id(), &[]).await;
    town.told("<@60>, <@1> granted you **chat** on `site`.")
        .await;
}

#[tokio::test]
async fn whoever_names_no_project_gets_the_one_that_an_admin_chooses_or_a_no() {
    let town = Town::open();
    let (cleo, olga) = (person(MemberId(60), &[]), person(OWNER, &[]));
    town.says(&cleo, place(GUILD, HALL), 1).await;
    let refused = town.said_in(HALL).await;
    town.presses(&cleo, GUILD, refused.buttons[0].id(), &[])
        .await;
    let asked = town.said_in(ADMIN_CHANNEL).await;
    let menu = asked.menu.clone().unwrap();
    let slugs: Vec<&str> = menu.options.iter().map(|(_, slug)| slug.as_str()).collect();
    assert_eq!(slugs, ["site", "notes", "shop"]);
    assert_eq!(texts(&asked), ["No"]);
    let chosen = town
        .presses(&olga, GUILD, menu.choice.id(), &["notes"])
        .await;
    assert_eq!(chosen.text, "Now choose what they get on `notes`.");
    let edited = town
        .surface
        .said()
        .into_iter()
        .rev()
        .find_map(|said| match said {
            Said::Edit { post, .. } => Some(post),
            _ => None,
        });
    assert_eq!(
        texts(&edited.unwrap()),
        ["Grant view", "Grant chat", "Grant ship", "No"]
    );
    let no = town.presses(&olga, GUILD, asked.buttons[0].id(), &[]).await;
    assert_eq!(no.text, "✗ <@1> said no to <@60>.");
    let told = town.said_in(CHANNEL).await;
    assert_eq!(told.text, "<@60>, your request for access was declined.");
    assert_eq!(town.store().grants().unwrap(), []);
    assert_eq!(
        town.store().audits(1).unwrap()[0].what,
        "decline member 60 -"
    );
}

#[tokio::test(start_paused = true)]
async fn somebody_with_several_projects_chooses_and_nobody_else_can() {
    let town = Town::open();
    let ada = person(MemberId(2), &[]);
    town.budget(ada.member);
    for name in ["notes", "shop"] {
        town.give(ada.member, name, Level::Chat, None);
    }
    town.says(&ada, place(GUILD, HALL), 1).await;
    let question = town.said_in(HALL).await;
    let menu = question.menu.clone().unwrap();
    assert_eq!(menu.choice, Choice::Project(TurnId(IDS + 1)));
    assert_eq!(menu.options[1], ("The shop".to_owned(), "shop".to_owned()));
    assert!(!town.has_turn(1));
    assert_eq!(town.store().holds().unwrap(), []);

    let ben = person(MemberId(3), &[]);
    let other = town.presses(&ben, GUILD, menu.choice.id(), &["shop"]).await;
    assert_eq!(other.text, words::not_asked_of_you());
    // What is changed meanwhile counts.
    town.desk
        .inbound(Inbound::Edited {
            message: MessageId(IDS + 1),
            channel: HALL,
            text: "plot that".into(),
        })
        .await;
    let own = town.presses(&ada, GUILD, menu.choice.id(), &["shop"]).await;
    assert_eq!(own.text, notice::asked(ThreadId(IDS + 1)));
    let record = town.store().turn(TurnId(IDS + 1)).unwrap().unwrap();
    assert_eq!(
        (record.project, record.request.text),
        (slug("shop"), "plot that".into())
    );
    let twice = town
        .presses(&ada, GUILD, menu.choice.id(), &["notes"])
        .await;
    assert_eq!(twice.text, words::not_waiting());

    // A request that is deleted, or waits too long, is forgotten.
    town.says(&ada, place(GUILD, HALL), 2).await;
    town.desk
        .inbound(Inbound::Deleted {
            messages: vec![MessageId(IDS + 2)],
            channel: HALL,
        })
        .await;
    town.says(&ada, place(GUILD, HALL), 3).await;
    tokio::time::advance(Duration::from_secs(16 * 60)).await;
    for id in [2, 3] {
        let choice = Choice::Project(TurnId(IDS + id));
        let late = town.presses(&ada, GUILD, choice.id(), &["shop"]).await;
        assert_eq!(late.text, words::not_waiting());
        assert!(!town.has_turn(id));
    }
}

#[tokio::test]
async fn while_new_turns_are_paused_everybody_is_told_why_who_could_have_run_one() {
    let town = Town::open();
    town.host();
    let (ada, _) = Kind::Chat.comes(&town);
    let (cleo, _) = Stranger.comes(&town);
    let olga = person(OWNER, &[]);
    town.office
        .act(&olga, GUILD, Act::Pause("new disk".into()))
        .await;
    town.says(&ada, place(GUILD, CHANNEL), 1).await;
    let told = town.said_in(CHANNEL).await;
    assert_eq!(
        told.text,
        "New turns are paused by an admin: new disk. Ask again later."
    );
    town.says(&cleo, place(GUILD, THREAD.channel()), 2).await;
    let told = town.said_in(THREAD.channel()).await;
    assert!(told.text.starts_with("You have no access"), "{}", told.text);
    // What waited is not begun either.
    let chat = town.host();
    let mut record = TurnRecord {
        id: TurnId(803),
        ..of_host(800, Stage::Waiting)
    };
    record.request.author = ada.clone();
    let refused = gate::hold(&town.house, &chat, &mut record).unwrap();
    assert_eq!(refused, Err(Refusal::Paused("new disk".into())));
    town.office.act(&olga, GUILD, Act::Resume).await;
    assert!(gate::hold(&town.house, &chat, &mut record).unwrap().is_ok());
}

/// A turn of somebody who holds these, as it was let in.
fn let_in(town: &Town, by: &Person, projects: &[&str]) -> (Chat, TurnRecord) {
    let chat = Chat {
        projects: projects.iter().map(|name| slug(name)).collect(),
        ..town.host()
    };
    town.store().put_chat(&chat).unwrap();
    let mut record = of_host(805, Stage::Waiting);
    record.request.author = by.clone();
    gate::hold(&town.house, &chat, &mut record)
        .unwrap()
        .unwrap();
    town.store().put_turn(&record).unwrap();
    (chat, record)
}

#[tokio::test]
async fn of_a_chats_projects_only_those_count_that_the_author_may_run_turns_in() {
    let town = Town::open();
    let ada = person(MemberId(2), &[]);
    town.budget(ada.member);
    town.give(ada.member, "site", Level::Chat, None);
    town.give(ada.member, "notes", Level::Ship, None);
    town.give(ada.member, "shop", Level::View, None);
    let (chat, record) = let_in(&town, &ada, &["site", "notes", "shop"]);
    assert_eq!(record.extras, [(slug("notes"), Level::Ship)]);
    assert!(gate::may_go_on(&town.house, &chat, &record).unwrap());
    // A further project that is taken away, or less of it, ends the turn that was let into it.
    town.give(ada.member, "notes", Level::Chat, None);
    assert!(!gate::may_go_on(&town.house, &chat, &record).unwrap());
}

#[tokio::test]
async fn roles_are_read_again_while_a_turn_runs() {
    let town = Town::open();
    let team = RoleId(70);
    let ada = person(MemberId(2), &[team]);
    town.budget(ada.member);
    let by_role = Grant {
        subject: Subject::Role(team),
        ..grant(Subject::Member(ada.member), "site", Level::Chat, None)
    };
    town.store().give(&by_role).unwrap();
    let (chat, record) = let_in(&town, &ada, &["site"]);
    let may = async || {
        newest::read_again(&town.house).await.unwrap();
        gate::may_go_on(&town.house, &chat, &record).unwrap()
    };
    town.surface.gives_roles(ada.member, Some(vec![team]));
    assert!(may().await);
    town.surface.gives_roles(ada.member, Some(vec![]));
    assert!(!may().await);
    town.surface.gives_roles(ada.member, Some(vec![team]));
    assert!(may().await);
    // While Discord does not tell, what was known at the start counts.
    let away = crate::driver::ports::SurfaceError::Away("it is down".into());
    town.surface.fails("roles", away);
    assert!(may().await);
    // Whoever left the server has nothing, whatever was granted by name.
    town.give(ada.member, "site", Level::Ship, None);
    town.surface.gives_roles(ada.member, None);
    assert!(!may().await);
    assert_eq!(newest::person(&town.house, GUILD, &ada).await, None);
}

#[tokio::test]
async fn a_month_that_runs_out_is_told_once_at_four_fifths_and_once_at_its_end() {
    let town = Town::open();
    let ada = person(MemberId(2), &[]);
    town.budget(ada.member);
    town.give(ada.member, "site", Level::Chat, None);
    town.office
        .set_project_budget(&person(OWNER, &[]), "site", Some(6.0))
        .await;
    let (chat, first) = let_in(&town, &ada, &["site"]);
    let spent = async |id: u64, cost: f64| {
        let mut record = TurnRecord {
            id: TurnId(id),
            stage: Stage::Waiting,
            ..first.clone()
        };
        town.store().release(first.id).unwrap();
        let before = town.surface.said().len();
        gate::hold(&town.house, &chat, &mut record)
            .unwrap()
            .unwrap();
        town.store()
            .settle(record.id, usd(cost), false, NOW)
            .unwrap();
        crate::driver::warnings::after(&town.house, &chat, &record);
        // Each warning is kept until it arrived: none is left means all were said.
        while !town.store().pending().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let mut said: Vec<String> = town.surface.said()[before..]
            .iter()
            .filter_map(|said| match said {
                Said::Post { channel, post, .. } => Some(format!(
                    "{channel} {:?} {}",
                    post.ping.map(|it| it.0),
                    post.text
                )),
                _ => None,
            })
            .map(|line| line.split(" It ").next().unwrap_or_default().to_owned())
            .collect();
        said.sort();
        said
    };
    assert_eq!(spent(901, 3.99).await, [""; 0]);
    assert_eq!(
        spent(902, 0.01).await,
        ["700 Some(2) ⚠ <@2>, you have used 80 % of your budget for this month ($4.00 of $5.00)."]
    );
    assert_eq!(
        spent(903, 0.9).await,
        ["602 None ⚠ 80 % of the budget of `site` for this month is used ($4.90 of $6.00)."]
    );
    assert_eq!(
        spent(904, 1.2).await,
        [
            "602 None ⚠ The budget of `site` for this month is used up ($6.10 of $6.00): only owners can run turns there.",
            "700 Some(2) ⚠ <@2>, your budget for this month is used up ($6.10 of $5.00).",
        ]
    );
}

#[tokio::test]
async fn a_chat_is_changed_by_its_owner_and_the_change_counts_from_the_next_turn_on() {
    let town = Town::open();
    let host = person(HOST, &[]);
    town.budget(HOST);
    for name in ["site", "notes"] {
        town.give(HOST, name, Level::Chat, None);
    }
    let before = town.host();
    let wants = async |want: ChatWant, id: u64| {
        let call = InboundChat {
            id: InteractionId(IDS + id),
            place: place(GUILD, THREAD.channel()),
            by: host.clone(),
            want,
        };
        town.desk.chat_command(call).await.text
    };
    let kept = || town.store().chat(THREAD).unwrap().unwrap();
    assert!(
        wants(ChatWant::New, 1)
            .await
            .starts_with("✓ The next request begins")
    );
    assert_ne!(kept().session.id, before.session.id);
    assert!(!kept().session.begun);
    assert!(
        wants(ChatWant::Model("Sonnet".into()), 2)
            .await
            .contains("now uses `sonnet`")
    );
    assert_eq!(kept().model, "sonnet");
    let closed = wants(ChatWant::Model("opus".into()), 3).await;
    assert!(closed.contains("You can use `haiku`, `sonnet`"), "{closed}");
    assert!(
        wants(ChatWant::Listen(Listen::Mentions), 4)
            .await
            .contains("Only messages")
    );
    assert_eq!(kept().listen, Listen::Mentions);
    assert!(
        wants(ChatWant::AddProject("notes".into()), 5)
            .await
            .starts_with('✓')
    );
    assert!(
        wants(ChatWant::AddProject("notes".into()), 6)
            .await
            .contains("already")
    );
    let hidden = wants(ChatWant::AddProject("shop".into()), 7).await;
    assert!(
        hidden.starts_with("There is no project `shop` that you can use."),
        "{hidden}"
    );
    assert_eq!(kept().projects, [slug("site"), slug("notes")]);

    // Another chat of the same kind, with what its owner still holds.
    town.store()
        .revoke(Subject::Member(HOST), &slug("notes"))
        .unwrap();
    let forked = wants(ChatWant::Fork, 8).await;
    assert!(
        forked.contains("There is no conversation to take along yet"),
        "{forked}"
    );
    assert!(forked.contains("without this chat's files"), "{forked}");
    assert!(
        forked.ends_with("you do not hold `chat` there: `notes`."),
        "{forked}"
    );
    let chats = town.store().chats().unwrap();
    let other = chats.iter().find(|chat| chat.thread != THREAD).unwrap();
    assert_eq!(other.projects, [slug("site")]);
    assert_eq!((other.owner, other.listen), (HOST, Listen::All));
    assert_ne!(other.workdir, kept().workdir);
    assert_ne!(other.word, kept().word);
    // The same interaction again opens no second thread.
    wants(ChatWant::Fork, 8).await;
    assert_eq!(town.store().chats().unwrap().len(), 2);
}
