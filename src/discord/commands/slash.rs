//! The commands: shells that read what was filled in, call, and keep what is to be said.

use std::any::Any;
use std::convert::Infallible;

use serenity::all::{
    AutocompleteChoice, CommandInteraction, CreateAutocompleteResponse, Member, ResolvedValue, User,
};

use crate::admin::Act;
use crate::domain::chat::Listen;
use crate::domain::grant::{Level, Subject};
use crate::domain::guest::Person;
use crate::domain::ids::{
    AttachmentId, ChannelId, GuildId, InteractionId, MemberId, RoleId, ThreadId,
};
use crate::domain::request::Attachment;
use crate::domain::venue::{Place, PlaceKind};
use crate::driver::inbound::{ChatWant, InboundAsk, InboundChat, InboundStop, Reply};

use super::super::handlers::{ActCall, Caller, Choice, Completion, GrantCall, RevokeCall};
use super::{Ctx, Front};

/// Proposals for one option (application-commands, "Autocomplete").
const MOST_CHOICES: usize = 25;

/// Code points of a proposal's name and of its value.
const LONGEST_CHOICE: usize = 100;

/// Returns all commands.
pub(super) fn all() -> Vec<poise::Command<Front, Infallible>> {
    vec![
        ask(),
        stop(),
        new(),
        fork(),
        model(),
        listen(),
        add_project(),
        details(),
        me(),
        projects(),
        usage(),
        grant(),
        revoke(),
        grants(),
        guest(),
        budget(),
        spend(),
        audit(),
        status(),
        pause(),
        resume(),
    ]
}

/// What a level is called on Discord.
#[derive(Clone, Copy, Debug, poise::ChoiceParameter)]
enum LevelOption {
    #[name = "view"]
    View,
    #[name = "chat"]
    Chat,
    #[name = "ship"]
    Ship,
}

impl From<LevelOption> for Level {
    fn from(level: LevelOption) -> Level {
        match level {
            LevelOption::View => Level::View,
            LevelOption::Chat => Level::Chat,
            LevelOption::Ship => Level::Ship,
        }
    }
}

/// Ask the agent to do something in a project
#[poise::command(slash_command)]
async fn ask(
    ctx: Ctx<'_>,
    #[description = "The project to work in"]
    #[autocomplete = "named_projects"]
    project: String,
    #[description = "What to do"] prompt: String,
    #[description = "The model to use"]
    #[autocomplete = "models"]
    model: Option<String>,
    #[description = "A file to work with"] file: Option<serenity::all::Attachment>,
) -> Result<(), Infallible> {
    let Caller { id, place, by } = caller(ctx.interaction);
    let asked = (ctx.framework.user_data.ask)(InboundAsk {
        id,
        place,
        author: by,
        project,
        prompt,
        model,
        file: file.map(attachment),
    });
    keep(ctx, asked.await).await
}

/// Stop what runs in this thread
#[poise::command(slash_command)]
async fn stop(ctx: Ctx<'_>) -> Result<(), Infallible> {
    let Caller { id, place, by } = caller(ctx.interaction);
    let thread = ThreadId(place.channel.0);
    let stopped = (ctx.framework.user_data.stop)(InboundStop { id, thread, by });
    keep(ctx, stopped.await).await
}

/// Begin a new conversation in this thread
#[poise::command(slash_command)]
async fn new(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_chat(ctx, ChatWant::New).await
}

/// Open a thread of your own with this chat's projects
#[poise::command(slash_command)]
async fn fork(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_chat(ctx, ChatWant::Fork).await
}

/// Change the model of this chat
#[poise::command(slash_command)]
async fn model(
    ctx: Ctx<'_>,
    #[description = "The model to use from now on"]
    #[autocomplete = "models"]
    model: String,
) -> Result<(), Infallible> {
    of_chat(ctx, ChatWant::Model(model)).await
}

/// What the bot listens to in a thread.
#[derive(Clone, Copy, Debug, poise::ChoiceParameter)]
enum ListenOption {
    #[name = "all"]
    All,
    #[name = "mentions"]
    Mentions,
}

/// Choose which messages in this thread count as requests
#[poise::command(slash_command)]
async fn listen(
    ctx: Ctx<'_>,
    #[description = "All messages of people who may run turns, or only those that mention me"]
    to: ListenOption,
) -> Result<(), Infallible> {
    let listen = match to {
        ListenOption::All => Listen::All,
        ListenOption::Mentions => Listen::Mentions,
    };
    of_chat(ctx, ChatWant::Listen(listen)).await
}

/// Let this chat work in one more project
#[poise::command(slash_command, rename = "add-project")]
async fn add_project(
    ctx: Ctx<'_>,
    #[description = "The project"]
    #[autocomplete = "named_projects"]
    project: String,
) -> Result<(), Infallible> {
    of_chat(ctx, ChatWant::AddProject(project)).await
}

/// See every step of the newest turn in this thread
#[poise::command(slash_command)]
async fn details(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_chat(ctx, ChatWant::Details).await
}

/// See your projects
#[poise::command(slash_command)]
async fn projects(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_office(ctx, Act::Projects).await
}

/// See what you may do here and what is left of your budget
#[poise::command(slash_command)]
async fn me(ctx: Ctx<'_>) -> Result<(), Infallible> {
    let told = (ctx.framework.user_data.office.me)(caller(ctx.interaction));
    keep(ctx, told.await).await
}

/// See what you have used this month
#[poise::command(slash_command)]
async fn usage(ctx: Ctx<'_>) -> Result<(), Infallible> {
    let told = (ctx.framework.user_data.office.usage)(caller(ctx.interaction));
    keep(ctx, told.await).await
}

/// Let a member or a role work in a project
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn grant(
    ctx: Ctx<'_>,
    #[description = "The project"]
    #[autocomplete = "named_projects"]
    project: String,
    #[description = "What it allows: view, chat (run turns; the default) or ship (push and deploy too)"]
    level: Option<LevelOption>,
    #[description = "The member who gets it"] member: Option<User>,
    #[description = "The role whose members get it"] role: Option<serenity::all::Role>,
    #[description = "For how long, such as 7d; without it, until it is revoked"]
    for_how_long: Option<String>,
) -> Result<(), Infallible> {
    let caller = caller(ctx.interaction);
    let subject = match subject(member, role) {
        Ok(subject) => subject,
        Err(reply) => return keep(ctx, reply).await,
    };
    let granted = (ctx.framework.user_data.office.grant)(GrantCall {
        caller,
        subject,
        project,
        level: level.map_or(Level::Chat, Level::from),
        for_how_long,
    });
    keep(ctx, granted.await).await
}

/// Take a project away from a member or a role
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn revoke(
    ctx: Ctx<'_>,
    #[description = "The project"]
    #[autocomplete = "named_projects"]
    project: String,
    #[description = "The member who loses it"] member: Option<User>,
    #[description = "The role that loses it"] role: Option<serenity::all::Role>,
) -> Result<(), Infallible> {
    let caller = caller(ctx.interaction);
    let subject = match subject(member, role) {
        Ok(subject) => subject,
        Err(reply) => return keep(ctx, reply).await,
    };
    let revoked = (ctx.framework.user_data.office.revoke)(RevokeCall {
        caller,
        subject,
        project,
    });
    keep(ctx, revoked.await).await
}

/// See who may work in which project
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn grants(ctx: Ctx<'_>) -> Result<(), Infallible> {
    let told = (ctx.framework.user_data.office.grants)(caller(ctx.interaction));
    keep(ctx, told.await).await
}

/// See and change what is kept about a guest
#[poise::command(
    slash_command,
    default_member_permissions = "MANAGE_GUILD",
    subcommands("guest_show", "guest_suspend", "guest_restore", "guest_models"),
    subcommand_required
)]
async fn guest(ctx: Ctx<'_>) -> Result<(), Infallible> {
    keep(ctx, Reply::default()).await
}

/// See what a guest may do, has used, and was refused
#[poise::command(slash_command, rename = "show")]
async fn guest_show(
    ctx: Ctx<'_>,
    #[description = "The member"] member: User,
) -> Result<(), Infallible> {
    let member = MemberId(member.id.get());
    of_office(ctx, Act::Guest(member)).await
}

/// Let a guest do nothing any more, whatever was granted
#[poise::command(slash_command, rename = "suspend")]
async fn guest_suspend(
    ctx: Ctx<'_>,
    #[description = "The member"] member: User,
) -> Result<(), Infallible> {
    let member = MemberId(member.id.get());
    of_office(ctx, Act::Suspend(member)).await
}

/// Let a suspended guest in again
#[poise::command(slash_command, rename = "restore")]
async fn guest_restore(
    ctx: Ctx<'_>,
    #[description = "The member"] member: User,
) -> Result<(), Infallible> {
    let member = MemberId(member.id.get());
    of_office(ctx, Act::Restore(member)).await
}

/// Choose which models a guest may use
#[poise::command(slash_command, rename = "models")]
async fn guest_models(
    ctx: Ctx<'_>,
    #[description = "The member"] member: User,
    #[description = "Families such as: haiku sonnet; without it, the configured ones"]
    models: Option<String>,
) -> Result<(), Infallible> {
    let member = MemberId(member.id.get());
    of_office(ctx, Act::Models(member, models)).await
}

/// Set what may be spent in a month
#[poise::command(
    slash_command,
    default_member_permissions = "MANAGE_GUILD",
    subcommands("budget_guest", "budget_project"),
    subcommand_required
)]
async fn budget(ctx: Ctx<'_>) -> Result<(), Infallible> {
    keep(ctx, Reply::default()).await
}

/// Set what a guest may spend in a month
#[poise::command(slash_command, rename = "guest")]
async fn budget_guest(
    ctx: Ctx<'_>,
    #[description = "The member"] member: User,
    #[description = "US dollars a month; 0 is nothing at all; without it, the configured budget"]
    dollars: Option<f64>,
) -> Result<(), Infallible> {
    let member = MemberId(member.id.get());
    of_office(ctx, Act::GuestBudget(member, dollars)).await
}

/// Set what all guests together may spend in a project in a month
#[poise::command(slash_command, rename = "project")]
async fn budget_project(
    ctx: Ctx<'_>,
    #[description = "The project"]
    #[autocomplete = "named_projects"]
    project: String,
    #[description = "US dollars a month; 0 is nothing at all; without it, the configured budget"]
    dollars: Option<f64>,
) -> Result<(), Infallible> {
    of_office(ctx, Act::ProjectBudget(project, dollars)).await
}

/// See what everybody has used in a month
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn spend(
    ctx: Ctx<'_>,
    #[description = "Only this member"] member: Option<User>,
    #[description = "Only this project"]
    #[autocomplete = "named_projects"]
    project: Option<String>,
    #[description = "The month, such as 2026-11; without it, this month"] month: Option<String>,
) -> Result<(), Infallible> {
    let act = Act::Spend {
        member: member.map(|member| MemberId(member.id.get())),
        project,
        month,
    };
    of_office(ctx, act).await
}

/// See what admins did
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn audit(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_office(ctx, Act::Audit).await
}

/// See how the bot is
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn status(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_office(ctx, Act::Status).await
}

/// Let no new turns start
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn pause(
    ctx: Ctx<'_>,
    #[description = "Why, for those who are refused"] reason: Option<String>,
) -> Result<(), Infallible> {
    of_office(ctx, Act::Pause(reason.unwrap_or_default())).await
}

/// Let new turns start again
#[poise::command(slash_command, default_member_permissions = "MANAGE_GUILD")]
async fn resume(ctx: Ctx<'_>) -> Result<(), Infallible> {
    of_office(ctx, Act::Resume).await
}

async fn of_chat(ctx: Ctx<'_>, want: ChatWant) -> Result<(), Infallible> {
    let Caller { id, place, by } = caller(ctx.interaction);
    let answered = (ctx.framework.user_data.chat)(InboundChat {
        id,
        place,
        by,
        want,
    });
    keep(ctx, answered.await).await
}

async fn of_office(ctx: Ctx<'_>, act: Act) -> Result<(), Infallible> {
    let caller = caller(ctx.interaction);
    let answered = (ctx.framework.user_data.office.act)(ActCall { caller, act });
    keep(ctx, answered.await).await
}

async fn named_projects(ctx: Ctx<'_>, typed: &str) -> CreateAutocompleteResponse {
    let asked = completion(ctx, typed);
    listed((ctx.framework.user_data.office.complete_projects)(asked).await)
}

async fn models(ctx: Ctx<'_>, typed: &str) -> CreateAutocompleteResponse {
    let asked = completion(ctx, typed);
    listed((ctx.framework.user_data.office.complete_models)(asked).await)
}

fn completion(ctx: Ctx<'_>, typed: &str) -> Completion {
    let mut options = ctx.args.iter().filter(|option| option.name == "project");
    let project = options.find_map(|option| match option.value {
        ResolvedValue::String(text) => Some(text.to_owned()),
        _ => None,
    });
    Completion {
        caller: caller(ctx.interaction),
        command: ctx.interaction.data.name.clone(),
        typed: typed.to_owned(),
        project,
    }
}

/// Returns what Discord takes of the proposals: one too many or too long, and it shows none at all. A value that would
/// have to be cut is left out.
fn listed(choices: Vec<Choice>) -> CreateAutocompleteResponse {
    let fitting = choices.into_iter().filter(|choice| {
        let length = choice.value.chars().count();
        (1..=LONGEST_CHOICE).contains(&length) && !choice.name.trim().is_empty()
    });
    let shown = fitting.take(MOST_CHOICES).map(|choice| {
        let name: String = choice.name.chars().take(LONGEST_CHOICE).collect();
        AutocompleteChoice::new(name, choice.value)
    });
    CreateAutocompleteResponse::new().set_choices(shown.collect())
}

/// Returns the one member or role that was named.
fn subject(member: Option<User>, role: Option<serenity::all::Role>) -> Result<Subject, Reply> {
    let refusal = match (member, role) {
        (Some(user), None) if user.bot => "A bot cannot hold a grant.",
        (Some(user), None) => return Ok(Subject::Member(MemberId(user.id.get()))),
        (None, Some(role)) => return Ok(Subject::Role(RoleId(role.id.get()))),
        (Some(_), Some(_)) => "Choose either a member or a role, not both.",
        (None, None) => "Choose a member or a role.",
    };
    Err(refusal.to_owned().into())
}

fn caller(interaction: &CommandInteraction) -> Caller {
    let member = interaction.member.as_deref();
    Caller {
        id: InteractionId(interaction.id.get()),
        place: place(interaction),
        by: person(&interaction.user, member),
    }
}

/// Returns a person as an interaction shows them.
pub(super) fn person(user: &User, member: Option<&Member>) -> Person {
    let nick = member.and_then(|member| member.nick.clone());
    let name = nick.or_else(|| user.global_name.clone());
    let roles = member.map(|member| member.roles.as_slice());
    let roles = roles.unwrap_or_default().iter();
    Person {
        member: MemberId(user.id.get()),
        name: name.unwrap_or_else(|| user.name.clone()),
        roles: roles.map(|role| RoleId(role.get())).collect(),
    }
}

/// Returns where a command was used. What Discord does not tell is taken for a place without threads.
fn place(interaction: &CommandInteraction) -> Place {
    let channel = interaction.channel.as_ref();
    let kind = match channel.map(|channel| u8::from(channel.kind)) {
        Some(0 | 5) => PlaceKind::Text,
        Some(10..=12) => PlaceKind::Thread,
        _ => PlaceKind::Other,
    };
    let parent = channel.and_then(|channel| channel.parent_id);
    let guild = interaction.guild_id.map_or(0, |guild| guild.get());
    Place {
        guild: GuildId(guild),
        channel: ChannelId(interaction.channel_id.get()),
        parent: parent
            .filter(|_| kind == PlaceKind::Thread)
            .map(|parent| ChannelId(parent.get())),
        kind,
    }
}

fn attachment(file: serenity::all::Attachment) -> Attachment {
    Attachment {
        id: AttachmentId(file.id.get()),
        message: None,
        name: file.filename,
        size: file.size.into(),
        url: file.url,
    }
}

/// Keeps what is to be said, for the one place that says it.
async fn keep(ctx: Ctx<'_>, reply: Reply) -> Result<(), Infallible> {
    *ctx.invocation_data.lock().await = Box::new(reply);
    Ok(())
}

/// Returns what stands where a command keeps its reply before it has one.
pub(super) fn no_reply() -> Box<dyn Any + Send + Sync> {
    Box::new(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, value: &str) -> Choice {
        Choice {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn proposals_fit_what_discord_takes() {
        let mut choices = vec![
            choice("", "blank-name"),
            choice("no value", ""),
            choice("cut value", &"x".repeat(101)),
            choice(&"é".repeat(150), "long-name"),
        ];
        choices.extend((0..60).map(|n| choice(&format!("Project {n}"), &format!("p{n}"))));
        let written = serde_json::to_value(listed(choices)).unwrap();
        let written = written["choices"].as_array().unwrap();
        assert_eq!(written.len(), 25);
        assert_eq!(written[0]["value"], "long-name");
        assert_eq!(written[0]["name"].as_str().unwrap().chars().count(), 100);
        assert_eq!(written[1]["value"], "p0");
    }

    #[test]
    fn every_command_can_be_registered() {
        for command in all() {
            let written = serde_json::to_value(command.create_as_slash_command()).unwrap();
            let description = written["description"].as_str().unwrap();
            assert!(
                (1..=100).contains(&description.chars().count()),
                "{written}"
            );
            for option in written["options"].as_array().unwrap() {
                let description = option["description"].as_str().unwrap();
                assert!((1..=100).contains(&description.chars().count()), "{option}");
            }
        }
    }

    /// Returns the option of this name, or the subcommand.
    fn option<'a>(of: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
        let options = of["options"].as_array()?;
        options.iter().find(|option| option["name"] == name)
    }

    #[test]
    fn the_commands_in_the_readme_can_be_typed_so() {
        let readme = include_str!("../../../README.md");
        let commands: Vec<serde_json::Value> = all()
            .iter()
            .map(|command| serde_json::to_value(command.create_as_slash_command()).unwrap())
            .collect();
        let mut seen = 0;
        for line in readme.lines().filter(|line| line.starts_with('/')) {
            let mut words = line[1..].split_whitespace();
            let name = words.next().unwrap();
            let mut of = commands.iter().find(|it| it["name"] == name).expect(line);
            for word in words {
                let (name, value) = word
                    .split_once(':')
                    .map_or((word, None), |(name, value)| (name, Some(value)));
                let found = option(of, name).unwrap_or_else(|| panic!("{name} in {line}"));
                // Subcommands are the kinds 1 and 2; only options have values.
                let is_option = found["type"].as_u64().unwrap() > 2;
                assert_eq!(is_option, value.is_some(), "{word} in {line}");
                if !is_option {
                    of = found;
                }
            }
            seen += 1;
        }
        assert!(seen >= 2, "only {seen} commands stand in the README");
    }

    #[test]
    fn what_admins_do_is_hidden_from_others_by_default() {
        for command in all() {
            let written = serde_json::to_value(command.create_as_slash_command()).unwrap();
            let hidden = written["default_member_permissions"] == "32";
            let for_admins = [
                "grant", "revoke", "grants", "guest", "budget", "spend", "audit", "status",
                "pause", "resume",
            ]
            .contains(&&*command.name);
            assert_eq!(hidden, for_admins, "{}", command.name);
        }
    }
}
