//! Asking for access: a refused person presses a button, the admins get a message with the possible answers, and both sides
//! are told. Everything that is to be known stands in the buttons; whoever presses one is judged as if it had not been there.

use std::time::Duration;

use crate::domain::budget::{level_of, runnable_projects};
use crate::domain::grant::{Grant, Level, Subject};
use crate::domain::guest::Person;
use crate::domain::ids::{ChannelId, MemberId, Slug, TurnId};
use crate::driver::inbound::{InboundPress, Reply};
use crate::driver::notices;
use crate::driver::ports::{Button, Choice, Decide, Menu, Nonce, Post};
use crate::present::{office as say, office_chats as words};
use crate::store::StoreError;

use super::office::{Office, answered};

/// While a question is on its way to the admins, nobody asks it a second time.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

/// The same person asks for the same thing once in this time.
const COOLDOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is remembered that a message was decided on: messages do not stay interesting longer.
const DECIDED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Choices of one menu (Discord).
const CHOICES: usize = 25;

impl Office {
    /// Takes a button or menu about access; `None`: it is about something else.
    pub async fn access(&self, press: &InboundPress) -> Option<Reply> {
        let ours = self.rules.guilds.contains(&press.guild);
        match (
            Button::from_id(&press.custom_id),
            Choice::from_id(&press.custom_id),
        ) {
            (Some(Button::Ask(_)), _) if !ours => Some(Reply::from(words::nobody_to_ask())),
            (Some(Button::Ask(project)), _) => Some(self.asks(press, project).await),
            (Some(Button::Decide(decide)), _) => Some(self.decides(press, decide).await),
            (_, Some(Choice::Access { member, channel })) => {
                Some(self.chooses(press, member, channel).await)
            }
            _ => None,
        }
    }

    async fn asks(&self, press: &InboundPress, project: Option<Slug>) -> Reply {
        let Some(admins) = self.rules.admin_channel else {
            return Reply::from(words::nobody_to_ask());
        };
        // A name that nobody offered is no project's.
        let project = project.filter(|slug| self.catalogue.get(slug).is_some());
        match self.may_ask(&press.by, project.as_ref()) {
            Ok(None) => {}
            Ok(Some(text)) => return Reply::from(text),
            Err(error) => return answered(Err(error)),
        }
        let key = asking_key(press.by.member, project.as_ref());
        let post = self.question(press, project);
        let nonce = Nonce::of(TurnId(press.id.0), "a");
        let sent = self.house.ports.surface.post(admins, post, nonce).await;
        // Only what the admins got begins the cooldown.
        let (again, text) = match sent {
            Ok(_) => (self.now() + COOLDOWN, words::access_asked()),
            Err(error) => {
                tracing::error!(%error, "the admins cannot be told who asks for access");
                (self.now(), words::admins_away())
            }
        };
        if let Err(error) = self.store.put_once(&key, again) {
            tracing::error!(%error, "could not note when access may be asked for again");
        }
        Reply::from(text)
    }

    /// Returns why somebody may not ask now. To ask keeps others of the same kind away for a moment.
    fn may_ask(&self, by: &Person, project: Option<&Slug>) -> Result<Option<String>, StoreError> {
        let known = self.known(by)?;
        let facts = self.facts(by, &known);
        if known.guest.suspended && !self.rules.is_owner(by.member) {
            return Ok(Some(crate::present::notice::refusal(
                &crate::domain::grant::Refusal::Suspended,
            )));
        }
        match project {
            Some(project) if level_of(&facts, project) >= Some(Level::Chat) => {
                let level = level_of(&facts, project).unwrap_or(Level::Chat);
                return Ok(Some(words::holds_already(project, level)));
            }
            None if !runnable_projects(&facts).is_empty() => {
                return Ok(Some(words::holds_some_already()));
            }
            _ => {}
        }
        let key = asking_key(by.member, project);
        let first = self.store.once(&key, self.now(), ON_ITS_WAY)?;
        Ok((!first).then(words::access_asked_before))
    }

    /// Returns the message to the admins. Where no project was named they choose one first, unless there is only one.
    fn question(&self, press: &InboundPress, project: Option<Slug>) -> Post {
        let (member, channel) = (press.by.member, press.channel);
        let project = project.or_else(|| match self.catalogue.0.as_slice() {
            [only] => Some(only.slug.clone()),
            _ => None,
        });
        let text = words::access_wanted(member, &press.by.name, project.as_ref(), channel.0);
        match project {
            Some(project) => Post {
                text,
                buttons: answers(member, channel, &project),
                ..Post::default()
            },
            None => Post {
                text,
                menu: Some(Menu {
                    choice: Choice::Access { member, channel },
                    options: self.options(),
                }),
                buttons: vec![answer(member, channel, None, None)],
                ..Post::default()
            },
        }
    }

    fn options(&self) -> Vec<(String, String)> {
        let projects = self.catalogue.0.iter().take(CHOICES);
        projects
            .map(|project| (project.label().to_owned(), project.slug.to_string()))
            .collect()
    }

    /// An admin chose which project somebody is to get: the possible answers take the menu's place.
    async fn chooses(&self, press: &InboundPress, member: MemberId, channel: ChannelId) -> Reply {
        if !self.is_admin_here(press) {
            return Reply::from(say::admins_only());
        }
        let chosen = press.values.first().map_or("", String::as_str);
        let project = match self.project_named(chosen) {
            Ok(project) => project,
            Err(text) => return Reply::from(text),
        };
        let post = Post {
            text: words::access_choose_level(member, &project),
            buttons: answers(member, channel, &project),
            ..Post::default()
        };
        match self
            .house
            .ports
            .surface
            .edit(press.channel, press.message, post)
            .await
        {
            Ok(()) => Reply::from(words::choose_level(&project)),
            Err(error) => {
                tracing::warn!(%error, "a question about access cannot be changed");
                Reply::from(words::use_grant())
            }
        }
    }

    /// An admin answers. The first answer counts; both sides are told.
    async fn decides(&self, press: &InboundPress, decide: Decide) -> Reply {
        if !self.is_admin_here(press) {
            return Reply::from(say::admins_only());
        }
        let text = match self.decide(press, &decide) {
            Ok(Ok(text)) => text,
            Ok(Err(text)) => return Reply::from(text),
            Err(error) => {
                self.undecide(press);
                return answered(Err(error));
            }
        };
        if let Err(error) = self.store.flush().await {
            tracing::error!(%error, "could not bring a decision to the disk");
            self.undecide(press);
            return Reply::from(say::not_saved());
        }
        let (by, project) = (press.by.member, decide.project.as_ref());
        let shown = Post {
            text: words::access_decided(decide.member, by, project, decide.level),
            ..Post::default()
        };
        if let Err(error) = self
            .house
            .ports
            .surface
            .edit(press.channel, press.message, shown)
            .await
        {
            tracing::warn!(%error, "an answered question about access cannot be closed");
        }
        let told = Post {
            text: words::access_answer(decide.member, by, project, decide.level),
            ping: Some(decide.member),
            ..Post::default()
        };
        let nonce = Nonce::of(TurnId(press.message.0), "d");
        if let Err(error) = notices::say(&self.house, decide.channel, &told, nonce) {
            tracing::error!(%error, "somebody cannot be told what became of their request for access");
        }
        Reply::from(self.saved(text).await)
    }

    /// Lets an answer be given again that did not come to anything.
    fn undecide(&self, press: &InboundPress) {
        if let Err(error) = self.store.put_once(&decided_key(press), self.now()) {
            tracing::error!(%error, "could not open a question about access again");
        }
    }

    fn decide(
        &self,
        press: &InboundPress,
        decide: &Decide,
    ) -> Result<Result<String, String>, StoreError> {
        let grant = match (&decide.project, decide.level) {
            (Some(project), Some(level)) => match self.project_named(project.as_str()) {
                Ok(project) => Some(Grant {
                    subject: Subject::Member(decide.member),
                    project,
                    level,
                    by: press.by.member,
                    at: self.now(),
                    until: None,
                }),
                Err(text) => return Ok(Err(text)),
            },
            _ => None,
        };
        if !self.store.once(&decided_key(press), self.now(), DECIDED)? {
            return Ok(Err(words::decided_already()));
        }
        match grant {
            Some(grant) => self.give(&press.by, &grant).map(Ok),
            None => {
                let project = decide.project.as_ref().map_or("-", Slug::as_str);
                let what = format!("decline member {} {project}", decide.member);
                self.note(&press.by, what, None, None)?;
                Ok(Ok(words::access_decided(
                    decide.member,
                    press.by.member,
                    decide.project.as_ref(),
                    None,
                )))
            }
        }
    }

    fn is_admin_here(&self, press: &InboundPress) -> bool {
        self.rules.guilds.contains(&press.guild) && self.is_admin(&press.by)
    }
}

/// Returns the name under which is kept when somebody may ask for something again.
fn asking_key(member: MemberId, project: Option<&Slug>) -> String {
    format!("access/{member}/{}", project.map_or("-", Slug::as_str))
}

/// Returns the name under which is kept that the message of this press was decided on.
fn decided_key(press: &InboundPress) -> String {
    format!("decided/{}", press.message)
}

/// Returns all answers about a project.
fn answers(member: MemberId, channel: ChannelId, project: &Slug) -> Vec<Button> {
    [
        Some(Level::View),
        Some(Level::Chat),
        Some(Level::Ship),
        None,
    ]
    .map(|level| answer(member, channel, Some(project), level))
    .to_vec()
}

fn answer(
    member: MemberId,
    channel: ChannelId,
    project: Option<&Slug>,
    level: Option<Level>,
) -> Button {
    Button::Decide(Decide {
        member,
        channel,
        project: project.cloned(),
        level,
    })
}
