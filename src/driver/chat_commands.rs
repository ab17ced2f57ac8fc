//! Commands about one chat: `/new`, `/fork`, `/model`, `/listen`, `/add-project`, `/details`.
//!
//! The chat's owner and admins change how it works, and each of them still needs `chat` on its project. A change counts from
//! the next turn on; a running turn keeps what it began with.

use std::sync::Arc;

use anyhow::Context as _;

use crate::domain::budget::Wanted;
use crate::domain::chat::{Chat, Listen};
use crate::domain::grant::{Level, Refusal};
use crate::domain::guest::Person;
use crate::domain::ids::{Slug, ThreadId, TurnId};
use crate::domain::venue;
use crate::present::notice;
use crate::present::office_chats::{self as say, Follows};

use super::details;
use super::fork;
use super::gate;
use super::house::House;
use super::inbound::{ChatWant, InboundChat, Reply};
use super::ports::{Nonce, Post, SurfaceError};

/// Projects that one chat can have.
const PROJECTS: usize = 8;

/// What comes of a command, if it is not refused.
type Done = anyhow::Result<Result<String, Refusal>>;

/// Does what somebody wants of the chat in whose thread they used the command.
pub async fn carry_out(house: &Arc<House>, call: InboundChat) -> Reply {
    match answer(house, call).await {
        Ok(reply) => reply,
        Err(error) => {
            tracing::error!(
                error = format!("{error:#}"),
                "could not carry out a command about a chat"
            );
            Reply::from(notice::broken())
        }
    }
}

async fn answer(house: &Arc<House>, call: InboundChat) -> anyhow::Result<Reply> {
    let InboundChat {
        id,
        place,
        by,
        want,
    } = call;
    if !venue::is_ours(&house.rules, &place) {
        return Ok(Reply::from(notice::not_here()));
    }
    let chat = house.store.chat(ThreadId(place.channel.0))?;
    let Some(chat) = chat.filter(|chat| !chat.closed && chat.guild == place.guild) else {
        return Ok(Reply::from(say::no_chat_here()));
    };
    // To see is less than to change.
    if want != ChatWant::Details
        && let Err(refusal) = may_change(house, &chat, &by)?
    {
        return refused(house, &by, &refusal);
    }
    let done = match want {
        ChatWant::New => new(house, &chat).await,
        ChatWant::Fork => forks(house, &chat, &by, TurnId(id.0)).await,
        ChatWant::Model(name) => model(house, &chat, &by, &name).await,
        ChatWant::Listen(listen) => listens(house, &chat, listen).await,
        ChatWant::AddProject(name) => add_project(house, &chat, &by, &name).await,
        ChatWant::Details => {
            return match house.store.newest_turn(chat.thread)? {
                Some(turn) => details::of(house, turn.id, &by).await,
                None => Ok(Reply::from(notice::no_turn_yet())),
            };
        }
    };
    match done? {
        Ok(text) => Ok(Reply::from(text)),
        Err(refusal) => refused(house, &by, &refusal),
    }
}

fn refused(house: &House, by: &Person, refusal: &Refusal) -> anyhow::Result<Reply> {
    let text = notice::refusal(refusal);
    house.store.note_refusal(by.member, &text, house.now())?;
    Ok(Reply::from(text))
}

/// Asks whether somebody may change this chat. Whoever may not even work in it hears that first.
fn may_change(house: &House, chat: &Chat, by: &Person) -> anyhow::Result<Result<(), Refusal>> {
    let first = Wanted::Fixed(&chat.projects[0]);
    Ok(match gate::enter(house, by, first, Level::Chat)? {
        Err(refusal) => Err(refusal),
        Ok(_) if chat.owner == by.member || house.rules.is_admin(by.member, &by.roles) => Ok(()),
        Ok(_) => Err(Refusal::NotYourChat),
    })
}

async fn change(house: &House, chat: &Chat, change: impl Fn(&mut Chat)) -> anyhow::Result<()> {
    house
        .store
        .revise_chat(chat.thread, change)
        .context("could not store the chat")?;
    house
        .store
        .flush()
        .await
        .context("could not store the chat")
}

async fn new(house: &House, chat: &Chat) -> Done {
    let session = gate::new_session();
    change(house, chat, |chat| chat.session = session.clone()).await?;
    Ok(Ok(say::new_conversation(house.hub.runs(chat.thread))))
}

async fn model(house: &House, chat: &Chat, by: &Person, name: &str) -> Done {
    let permit = match gate::permit(house, by, &chat.projects[0], Some(name))? {
        Ok(permit) => permit,
        Err(refusal) => return Ok(Err(refusal)),
    };
    change(house, chat, |chat| {
        permit.model().clone_into(&mut chat.model)
    })
    .await?;
    Ok(Ok(say::model_changed(&chat.model, permit.model())))
}

async fn listens(house: &House, chat: &Chat, listen: Listen) -> Done {
    change(house, chat, |chat| chat.listen = listen).await?;
    Ok(Ok(say::listens(listen)))
}

async fn add_project(house: &House, chat: &Chat, by: &Person, name: &str) -> Done {
    let slug = match gate::enter(house, by, Wanted::Typed(name), Level::Chat)? {
        Ok((slug, _)) => slug,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if chat.projects.contains(&slug) {
        return Ok(Ok(say::project_is_there(&slug)));
    }
    if chat.projects.len() >= PROJECTS {
        return Ok(Ok(say::too_many_projects(PROJECTS)));
    }
    change(house, chat, |chat| {
        if !chat.projects.contains(&slug) {
            chat.projects.push(slug.clone());
        }
    })
    .await?;
    Ok(Ok(say::project_added(&slug)))
}

/// Opens another thread with those of the chat's projects that the person holds. Conversation and files follow where they can.
async fn forks(house: &House, chat: &Chat, by: &Person, turn: TurnId) -> Done {
    let Some(channel) = chat.parent.filter(|parent| *parent != chat.place) else {
        return Ok(Ok(say::cannot_fork_here()));
    };
    if let Err(refusal) = gate::permit(house, by, &chat.projects[0], None)? {
        return Ok(Err(refusal));
    }
    if chat.session.begun && !house.store.open_turns(chat.thread)?.is_empty() {
        return Ok(Ok(say::fork_later()));
    }
    if !house.store.first_sight(turn.0, house.now())? {
        return Ok(Ok(notice::seen_already()));
    }
    let projects = held(house, chat, by)?;
    let surface = &house.ports.surface;
    let post = Post {
        text: say::forks(by.member, chat.thread),
        ..Post::default()
    };
    let message = match surface.post(channel, post, Nonce::of(turn, "f")).await {
        Ok(message) => message,
        Err(error) => return Ok(Ok(cannot_say(&error))),
    };
    // A thread has the id of the message it hangs on. It is opened last: nobody writes where nothing is ready.
    let thread = ThreadId(message.0);
    let mut forked = gate::forked_chat(house, chat, by, projects, thread)?;
    let follows = follows(house, chat, &mut forked).await;
    let name = say::fork_name(&forked.projects[0]);
    let thread = match surface.open_thread(channel, message, &name).await {
        Ok(thread) => thread,
        Err(error) => {
            if follows == Follows::All {
                fork::forget(house, chat, &forked, &forked.session).await?;
            }
            return Ok(Ok(cannot_say(&error)));
        }
    };
    house.store.put_chat(&forked)?;
    house.store.flush().await?;
    let left_out: Vec<Slug> = left_out(chat, &forked).cloned().collect();
    let shares = forked.workdir == chat.workdir;
    Ok(Ok(say::forked(thread, follows, shares, &left_out)))
}

/// Returns the projects of a chat that its fork does not have.
fn left_out<'a>(chat: &'a Chat, forked: &'a Chat) -> impl Iterator<Item = &'a Slug> {
    let all = chat.projects.iter();
    all.filter(|slug| !forked.projects.contains(slug))
}

/// Lets the conversation and the files follow into a fork, if they can.
async fn follows(house: &House, chat: &Chat, forked: &mut Chat) -> Follows {
    if !chat.session.begun {
        return Follows::NothingYet;
    }
    if forked.account != chat.account {
        return Follows::OtherAccount;
    }
    // The agent could tell of what its new owner may not see any more.
    if left_out(chat, forked).next().is_some() {
        return Follows::LeftOut;
    }
    match fork::follow(house, chat, forked, &forked.session).await {
        Ok(true) => {
            forked.session.begun = true;
            // The tags in the conversation bear it.
            forked.word.clone_from(&chat.word);
            Follows::All
        }
        Ok(false) => Follows::Failed,
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "a chat was not copied");
            Follows::Failed
        }
    }
}

fn cannot_say(error: &SurfaceError) -> String {
    tracing::warn!(%error, "a chat cannot be forked");
    match error {
        SurfaceError::Forbidden(right) => notice::cannot_say(Some(right)),
        SurfaceError::NoThreads => say::cannot_fork_here(),
        _ => notice::cannot_say(None),
    }
}

/// Returns the chat's projects on which the person holds `chat`: the first is among them, since the gate was passed there.
fn held(house: &House, chat: &Chat, by: &Person) -> anyhow::Result<Vec<Slug>> {
    let mut held = vec![chat.projects[0].clone()];
    for slug in chat.projects.iter().skip(1) {
        if gate::level(house, by, slug)? >= Some(Level::Chat) {
            held.push(slug.clone());
        }
    }
    Ok(held)
}
