//! Asks the domain's gate with what the store knows, when a request arrives and again when its turn starts.

use std::time::Duration;

use anyhow::Context as _;
use rand::Rng as _;

use crate::agent::command::permission_mode;
use crate::domain::budget::{self, Ask, Facts, Wanted};
use crate::domain::chat::{Chat, Listen, Session};
use crate::domain::grant::{Grant, Level, Permit, Refusal};
use crate::domain::guest::{Guest, Person};
use crate::domain::ids::{AccountId, SessionId, Slug, ThreadId, TurnId};
use crate::domain::money::Usd;
use crate::domain::project::{Catalogue, Project, Workspace};
use crate::domain::request::Request;
use crate::domain::time::Month;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::domain::venue::{Place, PlaceKind};
use crate::store::StoreError;
use crate::turn::facts::{TurnFacts, TurnLimits};

use super::desk;
use super::house::{AccountBy, House};

/// What the store knows about a person.
struct Known {
    guest: Guest,
    grants: Vec<Grant>,
    /// The configured projects, with the budgets that were set by command.
    catalogue: Catalogue,
}

fn known(house: &House, person: &Person) -> Result<Known, StoreError> {
    Ok(Known {
        guest: house.store.guest(person.member)?,
        grants: house.store.grants_for(person.member, &person.roles)?,
        catalogue: house
            .catalogue
            .with_budgets(&house.store.project_budgets()?),
    })
}

fn facts<'a>(house: &'a House, person: &'a Person, known: &'a Known) -> Facts<'a> {
    Facts {
        rules: &house.rules,
        catalogue: &known.catalogue,
        person,
        guest: &known.guest,
        grants: &known.grants,
        now: house.now(),
    }
}

/// Returns the level that a person holds on a project now.
pub fn level(house: &House, person: &Person, project: &Slug) -> Result<Option<Level>, StoreError> {
    let known = known(house, person)?;
    Ok(budget::level_of(&facts(house, person, &known), project))
}

/// Asks whether this request may become a turn.
pub fn admit(
    house: &House,
    request: &Request,
    chat: Option<&Chat>,
    place: &Place,
    typed: Option<&str>,
) -> Result<Result<Permit, Refusal>, StoreError> {
    let known = known(house, &request.author)?;
    let facts = facts(house, &request.author, &known);
    if let (Some(chat), Some(typed)) = (chat, typed)
        && chat.projects[0].as_str() != typed
        && house
            .catalogue
            .0
            .iter()
            .any(|project| project.slug.as_str() == typed)
    {
        return Ok(Err(Refusal::OtherProject {
            chat: chat.projects[0].clone(),
        }));
    }
    let of_channel = project_of_channel(house, place);
    let decision = decide(
        house,
        &facts,
        wanted(chat, typed, of_channel.as_ref()),
        request.model.as_deref(),
        chat.map(|chat| chat.model.as_str()),
    )?;
    unless_paused(house, decision)
}

fn wanted<'a>(
    chat: Option<&'a Chat>,
    typed: Option<&'a str>,
    of_channel: Option<&'a Slug>,
) -> Wanted<'a> {
    match (chat, typed, of_channel) {
        (Some(chat), _, _) => Wanted::Fixed(&chat.projects[0]),
        (None, Some(typed), _) => Wanted::Typed(typed),
        (None, None, Some(slug)) => Wanted::Fixed(slug),
        (None, None, None) => Wanted::Any,
    }
}

/// Returns whether somebody has anything to ask for in this place. Money, models and pauses are not looked at.
pub fn may_ask(
    house: &House,
    person: &Person,
    chat: Option<&Chat>,
    place: &Place,
) -> Result<bool, StoreError> {
    let of_channel = project_of_channel(house, place);
    let entry = enter(
        house,
        person,
        wanted(chat, None, of_channel.as_ref()),
        Level::Chat,
    )?;
    Ok(matches!(entry, Ok(_) | Err(Refusal::WhichProject { .. })))
}

/// Turns a yes into a no while new turns are paused. Whoever is refused anyway learns nothing of the pause.
fn unless_paused(
    house: &House,
    decision: Result<Permit, Refusal>,
) -> Result<Result<Permit, Refusal>, StoreError> {
    Ok(match (decision, house.store.paused()?) {
        (Ok(_), Some(why)) => Err(Refusal::Paused(why)),
        (decision, _) => decision,
    })
}

/// Asks whether a person may enter a project that they named. Money is not looked at.
pub fn enter(
    house: &House,
    person: &Person,
    project: Wanted<'_>,
    need: Level,
) -> Result<Result<(Slug, Level), Refusal>, StoreError> {
    let known = known(house, person)?;
    let ask = Ask {
        project,
        need,
        model: None,
    };
    let entry = budget::enter(&facts(house, person, &known), &ask);
    Ok(entry.map(|entry| (entry.project.slug.clone(), entry.level)))
}

/// Asks whether a person may use this model in a project, or none in particular, and have a turn there at all.
pub fn permit(
    house: &House,
    person: &Person,
    project: &Slug,
    model: Option<&str>,
) -> Result<Result<Permit, Refusal>, StoreError> {
    let known = known(house, person)?;
    let facts = facts(house, person, &known);
    decide(house, &facts, Wanted::Fixed(project), model, None)
}

/// Asks the gate. The chat's own model is a wish: somebody who may not use it gets his first allowed one.
fn decide(
    house: &House,
    facts: &Facts<'_>,
    project: Wanted<'_>,
    asked: Option<&str>,
    chats: Option<&str>,
) -> Result<Result<Permit, Refusal>, StoreError> {
    let ask = Ask {
        project,
        need: Level::Chat,
        model: asked.or(chats),
    };
    let entry = match budget::enter(facts, &ask) {
        Ok(entry) => entry,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let month = Month::of(facts.now, &house.rules.zone);
    let usage = house
        .store
        .usage(facts.person.member, &entry.project.slug, month)?;
    Ok(match budget::admit(facts, &usage, &ask) {
        Err(Refusal::Model { .. }) if asked.is_none() => {
            budget::admit(facts, &usage, &Ask { model: None, ..ask })
        }
        decision => decision,
    })
}

fn project_of_channel(house: &House, place: &Place) -> Option<Slug> {
    let channel = place.parent.unwrap_or(place.channel);
    let project = house
        .catalogue
        .0
        .iter()
        .find(|project| project.channels.contains(&channel))?;
    Some(project.slug.clone())
}

/// Passes the gate again as the turn starts, and holds its money in the store; the record then says so.
pub fn hold(
    house: &House,
    chat: &Chat,
    record: &mut TurnRecord,
) -> anyhow::Result<Result<Usd, Refusal>> {
    let known =
        known(house, &record.request.author).context("could not read the author's grants")?;
    let facts = facts(house, &record.request.author, &known);
    let project = Wanted::Fixed(&chat.projects[0]);
    let permit = decide(
        house,
        &facts,
        project,
        record.request.model.as_deref(),
        Some(&chat.model),
    )
    .and_then(|decision| unless_paused(house, decision))
    .context("could not ask the gate")?;
    let permit = match permit {
        Ok(permit) => permit,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let held = house
        .store
        .hold(record.id, &permit, house.now())
        .context("could not hold the turn's money")?;
    let extras = extras(&facts, chat);
    Ok(held.inspect(|amount| {
        record.extras = extras;
        record.project = permit.project().clone();
        record.level = permit.level();
        record.model = permit.model().to_owned();
        record.families = permit.families().map(<[String]>::to_vec);
        record.hold = *amount;
        record.month = Some(permit.month());
        record.started_at = Some(house.now());
        record.stage = Stage::Held;
    }))
}

/// Returns the chat's further projects that count for this person, with the level held on each.
fn extras(facts: &Facts<'_>, chat: &Chat) -> Vec<(Slug, Level)> {
    let further = chat.projects.iter().skip(1);
    let held = further.filter_map(|slug| Some((slug.clone(), budget::level_of(facts, slug)?)));
    held.filter(|(_, level)| *level >= Level::Chat).collect()
}

/// Returns what the machine must know about a turn.
pub fn facts_of(house: &House, chat: &Chat, record: &TurnRecord) -> TurnFacts {
    let title = house
        .catalogue
        .get(&record.project)
        .map_or_else(|| record.project.to_string(), |it| it.title.clone());
    let limits = &house.rules.limits;
    TurnFacts {
        id: record.id,
        author: record.request.author.member,
        model: record.model.clone(),
        project: record.project.clone(),
        title,
        mode: permission_mode(&house.agent).to_owned(),
        resumes: match record.session {
            Some(_) => record.resumes,
            None => chat.session.begun,
        },
        limits: TurnLimits {
            turn_time: limits.turn_time,
            silence: limits.silence,
            grace: GRACE,
        },
        at: record.started_at.unwrap_or_else(|| house.now()),
        secrets: house.secrets.clone(),
    }
}

/// How long the agent's process may take to go by itself, after its result or after it was asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Returns whether the author of a running turn still may: with the newest roles known, and on each project that the turn
/// was let into, at the level it was let in with.
pub fn may_go_on(house: &House, chat: &Chat, record: &TurnRecord) -> anyhow::Result<bool> {
    let Some(author) = house.newest.of(record) else {
        return Ok(false);
    };
    let known = known(house, &author).context("could not read the author's grants")?;
    let facts = facts(house, &author, &known);
    let first = match record.stage {
        // Asked again at its start, at whatever level is held by then.
        Stage::Waiting => Level::Chat,
        _ => record.level,
    };
    let holds = |slug: &Slug, level| budget::level_of(&facts, slug) >= Some(level);
    let extras = &record.extras;
    Ok(holds(&chat.projects[0], first) && extras.iter().all(|(slug, level)| holds(slug, *level)))
}

/// Returns why the files of a request are not taken in, if they are too large.
pub fn too_large(request: &Request, limit: u64) -> Option<Refusal> {
    let mut sum = 0u64;
    for file in &request.attachments {
        sum = sum.saturating_add(file.size);
        let is_prompt = is_prompt_file(request, &file.name) && file.size > PROMPT_BYTES;
        if is_prompt || sum > limit {
            let (size, limit) = if is_prompt {
                (file.size, PROMPT_BYTES)
            } else {
                (sum, limit)
            };
            return Some(Refusal::TooLarge {
                name: file.name.clone(),
                size,
                limit,
            });
        }
    }
    None
}

/// The longest request that is read from a file: Discord's client turns a long paste into `message.txt`.
pub const PROMPT_BYTES: u64 = 64 * 1024;

/// Returns whether this file is the request itself: a paste without any other words.
pub fn is_prompt_file(request: &Request, name: &str) -> bool {
    name == "message.txt" && request.text.trim().is_empty()
}

/// Returns the thread that is the name of the chat which a request in this place belongs to.
pub fn thread_of(request: &Request, place: &Place, turn: TurnId) -> ThreadId {
    // A thread has the id of the message it hangs on; where none can be opened, the chat is called after its request.
    match (place.kind, request.message) {
        (PlaceKind::Thread, _) => ThreadId(place.channel.0),
        (_, Some(message)) => ThreadId(message.0),
        (_, None) => ThreadId(turn.0),
    }
}

/// Makes the chat that this request opens.
pub fn new_chat(
    house: &House,
    request: &Request,
    place: &Place,
    turn: TurnId,
    permit: &Permit,
) -> Result<Chat, StoreError> {
    let thread = thread_of(request, place, turn);
    let project = house.catalogue.get(permit.project());
    Ok(Chat {
        thread,
        place: place.channel,
        on_message: desk::opening(place, request).is_some(),
        opening: desk::opening(place, request),
        parent: match place.kind {
            PlaceKind::Text => Some(place.channel),
            PlaceKind::Thread | PlaceKind::Other => place.parent,
        },
        guild: place.guild,
        owner: request.author.member,
        projects: vec![permit.project().clone()],
        model: permit.model().to_owned(),
        session: new_session(),
        account: account(house, &request.author, project, permit.project())?,
        workdir: workdir(house, project, thread),
        word: random_word(),
        listen: if place.kind == PlaceKind::Text {
            Listen::All
        } else {
            Listen::Mentions
        },
        speakers: Vec::new(),
        heard_unknown: false,
        opened_at: house.now(),
        closed: false,
    })
}

/// Makes a chat of its own that works like another: for `owner`, in these projects, in the thread that will hang on this
/// message.
pub fn forked_chat(
    house: &House,
    from: &Chat,
    owner: &Person,
    projects: Vec<Slug>,
    thread: ThreadId,
) -> Result<Chat, StoreError> {
    let project = house.catalogue.get(&projects[0]);
    Ok(Chat {
        thread,
        place: thread.channel(),
        opening: None,
        owner: owner.member,
        session: new_session(),
        account: account(house, owner, project, &projects[0])?,
        workdir: workdir(house, project, thread),
        word: random_word(),
        listen: Listen::All,
        opened_at: house.now(),
        closed: false,
        projects,
        ..from.clone()
    })
}

fn account(
    house: &House,
    owner: &Person,
    project: Option<&Project>,
    slug: &Slug,
) -> Result<AccountId, StoreError> {
    if let Some(fixed) = project.and_then(|project| project.account.as_ref()) {
        return Ok(AccountId(fixed.clone()));
    }
    let whose = match house.account_by {
        AccountBy::Project => account_kind(slug),
        AccountBy::Guest => format!("guest/{}", owner.member),
    };
    house.store.account(&whose, random_account)
}

/// Returns what a project's own account is kept under.
pub fn account_kind(project: &Slug) -> String {
    format!("project/{project}")
}

fn workdir(house: &House, project: Option<&Project>, thread: ThreadId) -> String {
    match project.map(|project| &project.workspace) {
        Some(Workspace::InPlace { path }) => path.clone(),
        Some(Workspace::Scratch | Workspace::Clone { .. }) | None => {
            house.workdir.replace("{chat}", &thread.to_string())
        }
    }
}

/// Returns a session that was never used.
pub fn new_session() -> Session {
    Session {
        id: SessionId(uuid::Uuid::new_v4().to_string()),
        begun: false,
    }
}

/// Eight characters, a letter first: open-terminal keeps no more (measured, 0.14.5).
fn random_account() -> String {
    let mut random = rand::rng();
    let mut name = String::from(char::from(random.random_range(b'a'..=b'z')));
    name.extend((0..7).map(|_| char::from_digit(random.random_range(0..36), 36).unwrap_or('0')));
    name
}

/// The chat's word for its author tags: 60 bits.
fn random_word() -> String {
    let mut random = rand::rng();
    (0..12)
        .map(|_| char::from_digit(random.random_range(0..32), 32).unwrap_or('0'))
        .collect()
}
