//! Plain examples of the domain's values, for tests of every room.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::budget::{Ask, Facts, Wanted, admit};
use super::chat::{Chat, Listen, Session};
use super::grant::{Grant, Level, Permit, Subject};
use super::guest::{Guest, Person};
use super::ids::{
    AccountId, ChannelId, GuildId, MemberId, MessageId, RoleId, SessionId, Slug, ThreadId, TurnId,
};
use super::ledger::Usage;
use super::money::Usd;
use super::project::{Catalogue, Collect, Project, Workspace};
use super::request::Request;
use super::rules::{Limits, Rules};
use super::time::Moment;
use super::turn_record::{Stage, TurnRecord};

pub(crate) const OWNER: MemberId = MemberId(1);
pub(crate) const ADA: MemberId = MemberId(2);
pub(crate) const ADMINS: RoleId = RoleId(99);
pub(crate) const GUILD: GuildId = GuildId(500);

pub(crate) fn slug(text: &str) -> Slug {
    text.parse().unwrap()
}

pub(crate) fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars)
}

pub(crate) fn person(member: MemberId, roles: &[RoleId]) -> Person {
    Person {
        member,
        name: format!("member {member}"),
        roles: roles.to_vec(),
    }
}

pub(crate) fn project(name: &str) -> Project {
    Project {
        slug: slug(name),
        title: format!("The {name}"),
        workspace: Workspace::Scratch,
        models: Vec::new(),
        budget: None,
        collect: Collect::All,
        channels: Vec::new(),
        system_prompt: None,
        account: None,
        allowed_domains: Vec::new(),
        ship_env_file: None,
    }
}

pub(crate) fn rules() -> Rules {
    Rules {
        guilds: vec![GUILD],
        owners: vec![OWNER],
        admin_roles: vec![ADMINS],
        admin_channel: None,
        channels: Vec::new(),
        models: vec!["haiku".into(), "sonnet".into()],
        families: vec!["haiku".into(), "sonnet".into(), "opus".into()],
        zone: TimeZone::UTC,
        limits: Limits {
            budget: Usd::ZERO,
            turn: usd(1.0),
            turn_time: Duration::from_secs(1800),
            silence: Duration::from_secs(600),
            question: Duration::from_secs(1800),
            queue_depth: 5,
            running: 4,
            running_per_guest: 1,
            upload: 10 << 20,
            download: 25 << 20,
            catch_up: Duration::from_secs(3600),
        },
    }
}

pub(crate) fn grant(subject: Subject, name: &str, level: Level, until: Option<Moment>) -> Grant {
    Grant {
        subject,
        project: slug(name),
        level,
        by: OWNER,
        at: Moment(0),
        until,
    }
}

/// A permit for a member with `chat` on a project, with these budgets in micro-dollars and a turn's cap of one dollar.
pub(crate) fn permit(
    member: MemberId,
    name: &str,
    budget: u64,
    project_budget: Option<u64>,
    now: Moment,
) -> Permit {
    let project = Project {
        budget: project_budget.map(Usd),
        ..project(name)
    };
    let guest = Guest {
        budget: Some(Usd(budget)),
        ..Guest::new(member)
    };
    let facts = Facts {
        rules: &rules(),
        catalogue: &Catalogue(vec![project]),
        person: &person(member, &[]),
        guest: &guest,
        grants: &[grant(Subject::Member(member), name, Level::Chat, None)],
        now,
    };
    let ask = Ask {
        project: Wanted::Any,
        need: Level::Chat,
        model: None,
    };
    admit(&facts, &Usage::default(), &ask).unwrap()
}

pub(crate) fn chat(thread: ThreadId) -> Chat {
    Chat {
        thread,
        place: thread.channel(),
        opening: None,
        on_message: false,
        parent: Some(ChannelId(600)),
        guild: GUILD,
        owner: ADA,
        projects: vec![slug("site")],
        model: "haiku".into(),
        session: Session {
            id: SessionId("0b5f3b0e-6a44-4d37-9b6e-3f1f0d1d2c11".into()),
            begun: false,
        },
        account: AccountId("k3v9x2ab".into()),
        workdir: "~/chat".into(),
        word: "larch".into(),
        listen: Listen::All,
        speakers: Vec::new(),
        heard_unknown: false,
        opened_at: Moment(5),
        closed: false,
    }
}

pub(crate) fn turn(id: u64, thread: ThreadId, stage: Stage) -> TurnRecord {
    TurnRecord {
        id: TurnId(id),
        thread,
        request: Request {
            author: person(ADA, &[]),
            text: "Plot data.csv, please".into(),
            attachments: Vec::new(),
            quotes: Vec::new(),
            context: Vec::new(),
            described: Vec::new(),
            message: Some(MessageId(id)),
            model: None,
        },
        stage,
        project: slug("site"),
        level: Level::Chat,
        ship_withheld: false,
        extras: Vec::new(),
        model: "haiku".into(),
        hold: Usd::ZERO,
        month: None,
        started_at: None,
        session: None,
        resumes: false,
        attempt: 0,
        families: None,
        shown: false,
        live: None,
        seen: 0,
        stopped_by: None,
        parts: Vec::new(),
        receipt: None,
        retry: false,
    }
}
