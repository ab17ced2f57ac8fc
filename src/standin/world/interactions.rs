//! Interactions: commands, buttons, menus and forms that people use, and how far the bot's answer
//! has come.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Draft, Id, World};

/// Milliseconds within which the first answer must come.
const FIRST_ANSWER_MS: u64 = 3_000;

/// Milliseconds for which an interaction's token is good.
const TOKEN_LIFE_MS: u64 = 15 * 60 * 1000;

/// How far the answer to an interaction has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Progress {
    /// Nothing came yet.
    Waiting,
    /// A message came, or the promised one did.
    Replied,
    /// The bot promised a message and "is thinking".
    Deferred,
    /// The bot promised to change the message, or has said only that it heard.
    Heard,
    /// The bot changed the message with the button.
    Updated,
    /// The suggestions came.
    Choices(Value),
    /// A form is shown.
    Modal(Value),
}

/// What a person uses.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Discord's interaction type: 2 command, 3 component, 4 autocomplete, 5 form.
    pub(crate) kind: u8,
    pub(crate) user: Id,
    pub(crate) channel: Id,
    /// The message with the button or menu.
    pub(crate) message: Option<Id>,
    /// Discord's `data` of the interaction.
    pub(crate) data: Value,
}

/// An interaction and its answer so far.
#[derive(Debug, Clone)]
pub(crate) struct Interaction {
    pub(crate) id: Id,
    pub(crate) token: String,
    pub(crate) asked: Asked,
    /// The world's time in milliseconds since 1970.
    pub(crate) born_ms: u64,
    pub(crate) progress: Progress,
    /// The first answer, or the message with the button if that was changed.
    pub(crate) original: Option<Id>,
    /// Messages after the first answer.
    pub(crate) follow_ups: Vec<Id>,
}

impl Interaction {
    /// Tells whether the first answer may still come.
    pub(crate) fn awaits_first_answer(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.born_ms) <= FIRST_ANSWER_MS
    }

    /// Tells whether the token is still good.
    pub(crate) fn is_alive(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.born_ms) <= TOKEN_LIFE_MS
    }
}

impl World {
    /// Starts an interaction and tells the bot. Returns its id.
    pub(crate) fn ask(&mut self, asked: Asked) -> Id {
        let id = self.clock.fresh_id();
        let secret = URL_SAFE_NO_PAD.encode(Sha256::digest(id.to_be_bytes()));
        let token = URL_SAFE_NO_PAD.encode(format!("interaction:{id}:{secret}{secret}"));
        let interaction = Interaction {
            id,
            token,
            asked,
            born_ms: self.clock.now_ms(),
            progress: Progress::Waiting,
            original: None,
            follow_ups: vec![],
        };
        let data = self.show_interaction(&interaction);
        let channel = interaction.asked.channel;
        self.interactions.insert(id, interaction);
        self.tell("INTERACTION_CREATE", data, 0, channel);
        // A command reaches the bot even where it sees nothing else.
        if let Some(news) = self.outbox.last_mut() {
            news.for_bot = true;
        }
        id
    }

    fn show_interaction(&self, interaction: &Interaction) -> Value {
        let Asked {
            kind,
            user,
            channel,
            message,
            ref data,
        } = interaction.asked;
        let mut shown = json!({
            "id": interaction.id.to_string(), "application_id": self.bot.id.to_string(), "type": kind, "data": data,
            "channel_id": channel.to_string(), "token": interaction.token, "version": 1, "locale": "en-US",
            "app_permissions": self.permissions(self.bot.id, channel).to_string(), "entitlements": [],
            "authorizing_integration_owners": {}, "context": 1, "attachment_size_limit": 10 * 1024 * 1024,
        });
        if let Some(place) = self.channels.get(&channel) {
            shown["channel"] = self.show_channel(place);
            shown["channel"]["permissions"] = json!(self.permissions(user, channel).to_string());
        }
        match self.guild_of(channel) {
            Some(guild) => {
                let mut member = self.show_member(guild, user).unwrap_or_default();
                member["permissions"] = json!(self.permissions(user, channel).to_string());
                shown["member"] = member;
                shown["guild_id"] = json!(guild.id.to_string());
                shown["guild"] =
                    json!({ "id": guild.id.to_string(), "locale": "en-US", "features": [] });
                shown["guild_locale"] = json!("en-US");
                shown["context"] = json!(0);
                shown["authorizing_integration_owners"] = json!({ "0": guild.id.to_string() });
                shown["attachment_size_limit"] = json!(guild.upload_limit);
            }
            None => shown["user"] = self.show_user(user),
        }
        if let Some(message) = message.and_then(|message| self.message(channel, message)) {
            shown["message"] = self.show_message(message);
        }
        shown
    }

    /// Finds an interaction by its token.
    pub(crate) fn interaction_by_token(&self, token: &str) -> Option<&Interaction> {
        self.interactions
            .values()
            .find(|interaction| interaction.token == token)
    }

    /// Returns what a message says about the interaction that it answers.
    pub(crate) fn show_interaction_metadata(&self, interaction: &Interaction) -> Value {
        let guild = self
            .guild_of(interaction.asked.channel)
            .map_or(0, |guild| guild.id);
        let mut shown = json!({
            "id": interaction.id.to_string(), "type": interaction.asked.kind,
            "user": self.show_user(interaction.asked.user),
            "authorizing_integration_owners": { "0": guild.to_string() },
        });
        if interaction.asked.kind == 3
            && let Some(message) = interaction.asked.message
        {
            shown["interacted_message_id"] = json!(message.to_string());
        }
        if interaction.asked.kind == 5 {
            let command = json!({
                "id": interaction.id.to_string(), "type": 2, "user": self.show_user(interaction.asked.user),
                "authorizing_integration_owners": { "0": guild.to_string() },
            });
            shown["triggering_interaction_metadata"] = command;
        }
        shown
    }

    /// Posts a message in answer to an interaction. Returns its id.
    pub(crate) fn post_answer(&mut self, interaction: Id, mut draft: Draft) -> Option<Id> {
        let interaction = self.interactions.get(&interaction)?;
        let (channel, user) = (interaction.asked.channel, interaction.asked.user);
        let reference = interaction.asked.message.or(interaction.original);
        draft.interaction = Some(self.show_interaction_metadata(interaction));
        draft.kind = if reference.is_some() { 19 } else { 20 };
        draft.reference = reference.map(|message| super::Reference {
            channel,
            message: Some(message),
            forward: false,
        });
        draft.only_for = (draft.flags & super::Message::EPHEMERAL != 0).then_some(user);
        Some(self.post(channel, draft))
    }
}
