//! Slash commands and buttons: acknowledged first, then carried out, then answered.
//!
//! The framework declares, reads and dispatches the commands; it never speaks. Every acknowledgement and every answer
//! goes by our own client, so that each one names whom it may notify and none waits behind a limiter.

mod age;
mod line;
mod register;
mod slash;

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use poise::{FrameworkContext, FrameworkError, FrameworkOptions};
use serde_json::Value;
use serenity::all::{
    CommandInteraction, ComponentInteraction, ComponentInteractionDataKind, Context,
    CreateAutocompleteResponse, Interaction, ResolvedValue, ShardManager, UserId,
};
use tokio_util::task::TaskTracker;

use crate::domain::ids::{ChannelId, GuildId, InteractionId, MessageId};
use crate::domain::rules::Rules;
use crate::domain::time::Moment;
use crate::driver::inbound::{InboundPress, Reply};
use crate::driver::ports::{Button, Choice};
use crate::present::notice;

use super::bodies;
use super::handlers::Handlers;
use super::outbound::Outbound;
use super::places::Places;
use super::rest::Rest;
use super::wire;
use age::Ages;
use line::Line;

/// What a command finds in its context.
type Front = Handlers;

/// What a command gets. Commands do not fail: whatever happens is said to the caller.
type Ctx<'a> = poise::ApplicationContext<'a, Front, Infallible>;

/// How long a completion may take: Discord shows none after three seconds, and people type on after one.
const COMPLETION: Duration = Duration::from_millis(900);

/// How long what was begun may take to come to its end when the bot stops.
const FINISH: Duration = Duration::from_secs(2);

/// Takes interactions.
pub(super) struct Switchboard {
    rest: Rest,
    outbound: Outbound,
    rules: Arc<Rules>,
    handlers: Handlers,
    options: FrameworkOptions<Front, Infallible>,
    ages: Ages,
    tasks: TaskTracker,
}

impl Switchboard {
    pub(super) fn new(
        rest: Rest,
        places: Arc<Places>,
        rules: Arc<Rules>,
        handlers: Handlers,
    ) -> Switchboard {
        Switchboard {
            outbound: Outbound::new(rest.clone(), places),
            rest,
            rules,
            handlers,
            options: FrameworkOptions {
                commands: slash::all(),
                manual_cooldowns: true,
                initialize_owners: false,
                ..FrameworkOptions::default()
            },
            ages: Ages::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Takes one interaction, in a task of its own.
    pub(super) fn ring(
        self: &Arc<Self>,
        context: Context,
        manager: Arc<ShardManager>,
        interaction: Interaction,
    ) {
        let board = Arc::clone(self);
        self.tasks.spawn(async move {
            match interaction {
                Interaction::Command(command) => board.command(&context, &manager, &command).await,
                Interaction::Autocomplete(typing) => {
                    board.complete(&context, &manager, &typing).await;
                }
                Interaction::Component(press) => board.press(&press).await,
                Interaction::Modal(modal) => {
                    let id = InteractionId(modal.id.get());
                    let guild = modal.guild_id.map(|guild| GuildId(guild.get()));
                    board.decline(guild, id, &modal.token).await;
                }
                _ => {}
            }
        });
    }

    /// Learns from something that was just made how Discord's clock and ours differ.
    pub(super) fn note_time(&self, made: Moment) {
        self.ages.of(made);
    }

    /// Says sorry for an interaction that could not be read.
    pub(super) fn apologise(self: &Arc<Self>, raw: &Value) {
        let (Some(id), Some(token)) = (wire::id(&raw["id"]), raw["token"].as_str()) else {
            return;
        };
        // A completion (type 4) takes no words.
        if raw["type"].as_u64() == Some(4) {
            return;
        }
        let guild = wire::id(&raw["guild_id"]).map(GuildId);
        let (board, token) = (Arc::clone(self), token.to_owned());
        self.tasks.spawn(async move {
            board.decline(guild, InteractionId(id), &token).await;
        });
    }

    /// Registers the commands with the configured servers, if they are not as they should be.
    pub(super) fn register(self: &Arc<Self>, application: u64) {
        let board = Arc::clone(self);
        self.tasks.spawn(async move {
            let guilds = &board.rules.guilds;
            register::register(&board.rest, application, guilds, &board.options.commands).await;
        });
    }

    /// Lets what was begun come to its end, for a moment.
    pub(super) async fn finish(&self) {
        self.tasks.close();
        if tokio::time::timeout(FINISH, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("commands were cut off by the end of the bot");
        }
    }

    fn is_ours(&self, guild: Option<GuildId>) -> bool {
        guild.is_some_and(|guild| self.rules.guilds.contains(&guild))
    }

    /// Acknowledges a slash command, carries it out, and says what came of it.
    async fn command(
        &self,
        context: &Context,
        manager: &Arc<ShardManager>,
        command: &CommandInteraction,
    ) {
        if !self.is_ours(command.guild_id.map(|guild| GuildId(guild.get()))) {
            return;
        }
        let line = Line::of_command(&self.rest, &self.outbound, command);
        if self.opens(&line).await {
            let work = AssertUnwindSafe(self.run(context, manager, command)).catch_unwind();
            line.say(work.await.unwrap_or_else(|_| Reply::from(notice::broken())))
                .await;
        }
    }

    /// Acknowledges an interaction; if that fails, or comes too late, nothing at all happens: the person sees that it
    /// failed, and does it again.
    async fn opens(&self, line: &Line<'_>) -> bool {
        if self.ages.of(line.id.made_at()) > age::STALE {
            tracing::debug!("an interaction came too late");
            return false;
        }
        line.acknowledge(&bodies::defer()).await
    }

    async fn run(
        &self,
        context: &Context,
        manager: &Arc<ShardManager>,
        command: &CommandInteraction,
    ) -> Reply {
        let reply = tokio::sync::Mutex::new(slash::no_reply());
        let acknowledged = AtomicBool::new(true);
        let options = command.data.options();
        let mut tree = Vec::new();
        let framework = self.framework(context, manager);
        let dispatched = poise::dispatch_interaction(
            framework,
            command,
            &acknowledged,
            &reply,
            &options,
            &mut tree,
        );
        match dispatched.await {
            Ok(()) => {}
            Err(FrameworkError::UnknownInteraction { .. }) => {
                return Reply::from(notice::unknown_command());
            }
            Err(FrameworkError::ArgumentParse { .. }) => {
                return Reply::from(notice::unreadable_options());
            }
            Err(_) => return Reply::from(notice::broken()),
        }
        let said = reply.into_inner().downcast::<Reply>();
        said.map_or_else(|_| Reply::from(notice::broken()), |reply| *reply)
    }

    fn framework<'a>(
        &'a self,
        context: &'a Context,
        manager: &'a Arc<ShardManager>,
    ) -> FrameworkContext<'a, Front, Infallible> {
        FrameworkContext {
            // Asked for by prefix commands alone, of which there are none.
            bot_id: UserId::new(1),
            serenity_context: context,
            options: &self.options,
            user_data: &self.handlers,
            shard_manager: manager,
        }
    }

    /// Completes the option that somebody is typing.
    async fn complete(
        &self,
        context: &Context,
        manager: &Arc<ShardManager>,
        typing: &CommandInteraction,
    ) {
        let line = Line::of_command(&self.rest, &self.outbound, typing);
        let stale = self.ages.of(line.id.made_at()) > age::STALE;
        if stale || !self.is_ours(typing.guild_id.map(|guild| GuildId(guild.get()))) {
            return;
        }
        let work = AssertUnwindSafe(self.choices(context, manager, typing)).catch_unwind();
        let choices = match tokio::time::timeout(COMPLETION, work).await {
            Ok(Ok(choices)) => choices,
            _ => CreateAutocompleteResponse::new(),
        };
        line.acknowledge(&bodies::choices(choices)).await;
    }

    async fn choices(
        &self,
        context: &Context,
        manager: &Arc<ShardManager>,
        typing: &CommandInteraction,
    ) -> CreateAutocompleteResponse {
        let reply = tokio::sync::Mutex::new(slash::no_reply());
        let acknowledged = AtomicBool::new(false);
        let options = typing.data.options();
        let mut tree = Vec::new();
        let framework = self.framework(context, manager);
        let found = poise::extract_command_and_run_checks(
            framework,
            typing,
            poise::CommandInteractionType::Autocomplete,
            &acknowledged,
            &reply,
            &options,
            &mut tree,
        );
        let Ok(ctx) = found.await else {
            return CreateAutocompleteResponse::new();
        };
        let focused = ctx.args.iter().find_map(|option| match option.value {
            ResolvedValue::Autocomplete { value, .. } => Some((option.name, value)),
            _ => None,
        });
        let callback = focused.and_then(|(name, typed)| {
            let mut parameters = ctx.command().parameters.iter();
            let parameter = parameters.find(|parameter| parameter.name == name)?;
            Some((parameter.autocomplete_callback?, typed))
        });
        match callback {
            Some((callback, typed)) => callback(ctx, typed).await,
            None => CreateAutocompleteResponse::new(),
        }
    }

    /// Acknowledges a button, passes it on, and says what came of it.
    async fn press(&self, press: &ComponentInteraction) {
        let guild = press.guild_id.map(|guild| GuildId(guild.get()));
        let Some(guild) = guild.filter(|guild| self.is_ours(Some(*guild))) else {
            return;
        };
        let id = InteractionId(press.id.get());
        let known = &press.data.custom_id;
        if Button::from_id(known).is_none() && Choice::from_id(known).is_none() {
            return self.decline(Some(guild), id, &press.token).await;
        }
        let line = Line::of_press(&self.rest, &self.outbound, press);
        if !self.opens(&line).await {
            return;
        }
        let work = (self.handlers.press)(InboundPress {
            id,
            guild,
            channel: ChannelId(press.channel_id.get()),
            message: MessageId(press.message.id.get()),
            by: slash::person(&press.user, press.member.as_ref()),
            custom_id: press.data.custom_id.clone(),
            values: match &press.data.kind {
                ComponentInteractionDataKind::StringSelect { values } => values.clone(),
                _ => Vec::new(),
            },
        });
        let reply = AssertUnwindSafe(work).catch_unwind().await;
        line.say(reply.unwrap_or_else(|_| Reply::from(notice::broken())))
            .await;
    }

    /// Says that nothing can be done with an interaction.
    async fn decline(&self, guild: Option<GuildId>, id: InteractionId, token: &str) {
        if !self.is_ours(guild) {
            return;
        }
        let text = notice::does_nothing();
        line::callback(&self.rest, id, token, &bodies::tell(&text)).await;
    }
}
