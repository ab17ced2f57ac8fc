//! The line to the one person who used a command or a button: open for fifteen minutes.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use serenity::all::{CommandInteraction, ComponentInteraction};
use tokio::time::Instant;

use crate::domain::ids::{ChannelId, InteractionId, MemberId, TurnId};
use crate::driver::inbound::Reply;
use crate::driver::ports::{Button, Nonce, Post, Surface, Upload};
use crate::present::notice;

use super::super::bodies;
use super::super::faults::code;
use super::super::names;
use super::super::outbound::Outbound;
use super::super::rest::{Again, Call, Major, Rest, RestError};

/// The longest that an acknowledgement is tried.
const ACKNOWLEDGEMENT: Duration = Duration::from_millis(2500);

/// How long after its acknowledgement an interaction may be answered; Discord closes it after fifteen minutes.
const OPEN: Duration = Duration::from_secs(14 * 60);

/// An interaction, as far as answering goes.
pub(super) struct Line<'a> {
    pub(super) id: InteractionId,
    rest: &'a Rest,
    outbound: &'a Outbound,
    token: &'a str,
    application: u64,
    channel: ChannelId,
    person: MemberId,
    began: Instant,
}

impl<'a> Line<'a> {
    pub(super) fn of_command(
        rest: &'a Rest,
        outbound: &'a Outbound,
        command: &'a CommandInteraction,
    ) -> Line<'a> {
        Line {
            id: InteractionId(command.id.get()),
            rest,
            outbound,
            token: &command.token,
            application: command.application_id.get(),
            channel: ChannelId(command.channel_id.get()),
            person: MemberId(command.user.id.get()),
            began: Instant::now(),
        }
    }

    pub(super) fn of_press(
        rest: &'a Rest,
        outbound: &'a Outbound,
        press: &'a ComponentInteraction,
    ) -> Line<'a> {
        Line {
            id: InteractionId(press.id.get()),
            rest,
            outbound,
            token: &press.token,
            application: press.application_id.get(),
            channel: ChannelId(press.channel_id.get()),
            person: MemberId(press.user.id.get()),
            began: Instant::now(),
        }
    }

    /// Gives Discord the answer that it waits for; returns whether it took it.
    pub(super) async fn acknowledge(&self, body: &Value) -> bool {
        callback(self.rest, self.id, self.token, body).await
    }

    /// Says what came of it. Where the line is closed already, the person is told in the channel that it is.
    pub(super) async fn say(&self, reply: Reply) {
        let text = if reply.text.trim().is_empty() && reply.files.is_empty() {
            notice::done()
        } else {
            reply.text
        };
        let (files, buttons) = (names::clean(reply.files), reply.buttons);
        let had_files = !files.is_empty();
        if self.began.elapsed() > OPEN {
            return self.say_in_channel().await;
        }
        let Err(error) = self.edit(&text, files, &buttons).await else {
            return;
        };
        // The line's token is not valid any more (10015, 50027).
        if matches!(error.status(), 401 | 404) {
            return self.say_in_channel().await;
        }
        tracing::warn!(%error, "an interaction could not be answered");
        let refused = error.status() != 0;
        if had_files && refused {
            let text = notice::without_file(&text);
            if let Err(error) = self.edit(&text, Vec::new(), &buttons).await {
                tracing::warn!(%error, "an interaction could not be answered without files either");
            }
        }
    }

    async fn edit(
        &self,
        text: &str,
        files: Vec<Upload>,
        buttons: &[Button],
    ) -> Result<(), RestError> {
        let (application, token) = (self.application, self.token);
        let path = format!("webhooks/{application}/{token}/messages/@original");
        let call = Call::new(
            "answer interaction",
            Method::PATCH,
            path,
            Major::Interaction,
        )
        .json(&bodies::answer(text, &files, buttons))
        .files(files);
        self.rest.send(call).await.map(drop)
    }

    /// Tells the one person, where everybody reads, that the line is closed. The answer itself was for that person alone.
    async fn say_in_channel(&self) {
        let post = Post {
            text: notice::line_closed(self.person),
            ping: Some(self.person),
            ..Post::default()
        };
        let nonce = Nonce::of(TurnId(self.id.0), "late");
        if let Err(error) = self.outbound.post(self.channel, post, nonce).await {
            tracing::warn!(%error, "an interaction could not be answered");
        }
    }
}

/// Answers an interaction for the first time; returns whether Discord took it.
pub(super) async fn callback(rest: &Rest, id: InteractionId, token: &str, body: &Value) -> bool {
    let path = format!("interactions/{id}/{token}/callback");
    let call = Call::new(
        "acknowledge interaction",
        Method::POST,
        path,
        Major::Interaction,
    )
    .json(body)
    .again(Again::Once)
    .within(ACKNOWLEDGEMENT);
    match rest.send(call).await {
        Ok(_) => true,
        // Ours, if the first try's answer was lost; else somebody runs this bot twice, which the store's lock excludes
        // on one machine.
        Err(error) if error.code() == code::ACKNOWLEDGED => {
            tracing::warn!("an interaction was acknowledged before: does another instance run?");
            true
        }
        Err(error) if error.code() == code::UNKNOWN_INTERACTION => {
            tracing::debug!("an interaction was not acknowledged in time");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "an interaction could not be acknowledged");
            false
        }
    }
}
