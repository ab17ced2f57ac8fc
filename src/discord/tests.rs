//! This room as a whole against a small Discord: what is heard, what is said back, and how it ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::fake::{Fake, Said, Seen, gateway_is_here, said};
use super::*;
use crate::admin::Act;
use crate::domain::grant::{Level, Subject};
use crate::domain::ids::{ChannelId, GuildId, MemberId, MessageId, RoleId};
use crate::domain::money::Usd;
use crate::domain::rules::{Limits, Rules};
use crate::domain::venue::PlaceKind;
use crate::driver::inbound::{Inbound, InboundMessage, Reply};

/// What was called, one line each.
#[derive(Clone)]
pub(super) struct Calls(watch::Sender<Vec<String>>);

impl Calls {
    fn note(&self, line: String) {
        self.0.send_modify(|lines| lines.push(line));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    async fn until(&self, line: &str) -> Vec<String> {
        let mut lines = self.0.subscribe();
        let found = lines.wait_for(|lines| lines.iter().any(|seen| seen == line));
        match tokio::time::timeout(Duration::from_secs(20), found).await {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("{line:?} did not come, but {:#?}", self.0.borrow()),
        }
    }
}

/// Returns calls before the first.
pub(super) fn quiet() -> Calls {
    Calls(watch::Sender::new(Vec::new()))
}

fn rules() -> Arc<Rules> {
    let second = Duration::from_secs(1);
    Arc::new(Rules {
        guilds: vec![GuildId(1)],
        owners: vec![MemberId(7)],
        admin_roles: Vec::new(),
        admin_channel: None,
        channels: Vec::new(),
        models: vec!["haiku".to_owned()],
        families: vec!["haiku".to_owned()],
        zone: jiff::tz::TimeZone::UTC,
        limits: Limits {
            budget: Usd::ZERO,
            turn: Usd::ZERO,
            turn_time: second,
            silence: second,
            question: second,
            queue_depth: 1,
            running: 1,
            running_per_guest: 1,
            upload: 1,
            download: 1,
            catch_up: second,
        },
    })
}

fn shown(inbound: &Inbound) -> String {
    match inbound {
        Inbound::Message(InboundMessage {
            id, place, text, ..
        }) => format!(
            "message {id} in {} ({:?}): {text}",
            place.channel, place.kind
        ),
        Inbound::Edited { message, text, .. } => format!("edited {message}: {text}"),
        Inbound::Deleted { messages, .. } => {
            let ids: Vec<String> = messages.iter().map(MessageId::to_string).collect();
            format!("deleted {}", ids.join(","))
        }
        Inbound::Gone { channel } => format!("gone {channel}"),
        Inbound::Removed { guild } => format!("removed {guild}"),
        Inbound::NewSession => "new session".to_owned(),
    }
}

/// Returns handlers that note what they are called with.
fn handlers(calls: &Calls) -> Handlers {
    fn answering<Q: Send + 'static>(
        calls: &Calls,
        show: impl Fn(&Q) -> String + Send + Sync + 'static,
    ) -> Answering<Q> {
        let calls = calls.clone();
        Arc::new(move |question| {
            let line = show(&question);
            calls.note(line.clone());
            async move { Reply::from(format!("@everyone {line}")) }.boxed()
        })
    }
    let completing = |what: &'static str| -> Completing {
        Arc::new(move |asked| {
            let value = format!("{what}-{}-{}", asked.command, asked.typed);
            async move {
                vec![Choice {
                    name: value.clone(),
                    value,
                }]
            }
            .boxed()
        })
    };
    let noting = calls.clone();
    Handlers {
        inbound: Arc::new(move |inbound| noting.note(shown(&inbound))),
        ask: answering(calls, |ask: &crate::driver::inbound::InboundAsk| {
            assert_ne!(ask.prompt, "panic", "a handler that breaks");
            format!("ask {} by {}: {}", ask.project, ask.author.name, ask.prompt)
        }),
        press: answering(calls, |press: &crate::driver::inbound::InboundPress| {
            let chosen = press.values.concat();
            format!("press {}{chosen} on {}", press.custom_id, press.message)
        }),
        stop: answering(calls, |stop: &crate::driver::inbound::InboundStop| {
            format!("stop {}", stop.thread)
        }),
        chat: answering(calls, |chat: &crate::driver::inbound::InboundChat| {
            format!("chat {} {:?}", chat.place.channel, chat.want)
        }),
        office: OfficeCalls {
            act: answering(calls, |call: &ActCall| format!("act {:?}", call.act)),
            grant: answering(calls, |grant: &GrantCall| {
                let GrantCall {
                    subject,
                    project,
                    level,
                    for_how_long,
                    ..
                } = grant;
                format!("grant {subject:?} {project} {level:?} {for_how_long:?}")
            }),
            revoke: answering(calls, |revoke: &RevokeCall| {
                format!("revoke {:?}", revoke.subject)
            }),
            grants: answering(calls, |_: &Caller| "grants".to_owned()),
            me: answering(calls, |me: &Caller| {
                format!("me {:?} {:?}", me.by.roles, me.place.kind)
            }),
            usage: answering(calls, |_: &Caller| "usage".to_owned()),
            complete_projects: completing("project"),
            complete_models: completing("model"),
        },
    }
}

/// A bot that serves.
struct House {
    fake: Fake,
    calls: Calls,
    cancel: CancellationToken,
    hands: Outbound,
    served: tokio::task::JoinHandle<Result<(), Fatal>>,
}

impl House {
    /// Starts a bot against a Discord that answers by `script`, or else as if all were well.
    async fn with(script: impl Fn(&Seen) -> Option<Said> + Send + Sync + 'static) -> House {
        let fake = Fake::start(move |seen| {
            script(seen).unwrap_or_else(|| match seen.line().as_str() {
                "GET gateway" | "GET gateway/bot" => gateway_is_here(),
                line if line.starts_with("GET") && line.ends_with("commands") => {
                    said(200, json!([]))
                }
                _ => said(200, json!({})),
            })
        })
        .await;
        House::at(fake)
    }

    fn at(fake: Fake) -> House {
        let calls = quiet();
        let cancel = CancellationToken::new();
        let settings = DiscordSettings {
            token: SecretString::from("a.b.c"),
            api_url: fake.url.clone(),
        };
        let discord = Discord::new(settings, rules()).unwrap();
        let hands = discord.surface();
        let served = tokio::spawn(discord.serve(handlers(&calls), cancel.clone()));
        House {
            fake,
            calls,
            cancel,
            hands,
            served,
        }
    }

    /// Starts a bot where all is well, and lets it know its server.
    async fn new() -> House {
        let house = House::with(|_| None).await;
        house.settle().await;
        house
    }

    async fn settle(&self) {
        self.fake.session().await;
        self.fake.report("GUILD_CREATE", guild());
        self.calls.until("new session").await;
    }

    /// Ends the bot and returns everything that was called.
    async fn close(self) -> Vec<String> {
        self.cancel.cancel();
        let served = tokio::time::timeout(Duration::from_secs(10), self.served).await;
        assert_eq!(served.expect("the bot ends in time").unwrap(), Ok(()));
        self.calls.0.borrow().clone()
    }
}

fn guild() -> Value {
    let channel = |id: &str, kind: u8| json!({"id": id, "type": kind, "name": "c", "position": 0, "permission_overwrites": [], "nsfw": false});
    json!({
        "id": "1", "name": "Demo", "icon": null, "splash": null, "discovery_splash": null, "owner_id": "7",
        "afk_channel_id": null, "afk_timeout": 300, "verification_level": 0, "default_message_notifications": 0,
        "explicit_content_filter": 0, "roles": [
            {"id": "88", "name": "innkeeper", "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
             "color": 0, "hoist": false, "position": 1, "permissions": "0", "managed": true, "mentionable": false,
             "flags": 0, "tags": {"bot_id": "99"}}],
        "emojis": [], "features": [], "mfa_level": 0, "application_id": null, "system_channel_id": null,
        "system_channel_flags": 0, "rules_channel_id": null, "vanity_url_code": null, "description": null,
        "banner": null, "premium_tier": 0, "preferred_locale": "en-US", "public_updates_channel_id": null,
        "nsfw_level": 0, "stickers": [], "premium_progress_bar_enabled": false, "safety_alerts_channel_id": null,
        "joined_at": "2026-01-01T00:00:00+00:00", "large": false, "member_count": 3, "voice_states": [],
        "members": [], "channels": [channel("2", 0), channel("4", 2)], "threads": [], "presences": [],
        "stage_instances": [], "guild_scheduled_events": [],
    })
}

fn user(id: &str) -> Value {
    json!({"id": id, "username": "ada", "discriminator": "0", "avatar": null, "global_name": "Ada"})
}

fn member() -> Value {
    json!({"roles": ["5"], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": false, "mute": false, "flags": 0})
}

fn message(id: &str, channel: &str, content: &str) -> Value {
    json!({
        "id": id, "channel_id": channel, "guild_id": "1", "type": 0, "content": content, "author": user("7"),
        "member": member(), "timestamp": "2026-01-01T00:00:00+00:00", "edited_timestamp": null, "tts": false,
        "mention_everyone": false, "mentions": [], "mention_roles": [], "attachments": [], "embeds": [], "pinned": false,
    })
}

fn with(mut value: Value, key: &str, changed: Value) -> Value {
    value[key] = changed;
    value
}

/// Returns an interaction that is made now.
fn interaction(kind: u8, data: Value) -> Value {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let id = (now.as_millis() as u64 - 1_420_070_400_000) << 22;
    json!({
        "id": id.to_string(), "application_id": "50", "type": kind, "data": data, "guild_id": "1", "channel_id": "2",
        "channel": {"id": "2", "type": 0, "name": "general", "permissions": "0"},
        "member": with(with(member(), "user", user("7")), "permissions", json!("0")),
        "token": format!("TOKEN{kind}"), "version": 1, "app_permissions": "0", "locale": "en-US", "entitlements": [],
        "authorizing_integration_owners": {}, "context": 0, "attachment_size_limit": 10_485_760,
    })
}

fn command(name: &str, options: Value, resolved: Value) -> Value {
    interaction(
        2,
        json!({"id": "60", "name": name, "type": 1, "options": options, "resolved": resolved}),
    )
}

fn text(name: &str, value: &str) -> Value {
    json!({"name": name, "type": 3, "value": value})
}

fn callback_of(interaction: &Value) -> String {
    let (id, token) = (
        wire::text(&interaction["id"]),
        wire::text(&interaction["token"]),
    );
    format!("POST interactions/{id}/{token}/callback")
}

const ANSWER: &str = "PATCH webhooks/50/TOKEN2/messages/@original";

#[tokio::test]
async fn what_happens_in_a_configured_server_is_handed_over_in_its_order() {
    let house = House::new().await;
    for n in 100..140 {
        house
            .fake
            .report("MESSAGE_CREATE", message(&n.to_string(), "2", "hi"));
    }
    let edited = with(
        message("100", "2", "<@&88> better"),
        "edited_timestamp",
        json!("2026-01-01T00:01:00+00:00"),
    );
    house.fake.report("MESSAGE_UPDATE", edited.clone());
    // A link preview: the same edit again.
    house.fake.report("MESSAGE_UPDATE", edited);
    house.fake.report(
        "MESSAGE_DELETE",
        json!({"id": "101", "channel_id": "2", "guild_id": "1"}),
    );
    let bulk = json!({"ids": ["102", "103"], "channel_id": "2", "guild_id": "1"});
    house.fake.report("MESSAGE_DELETE_BULK", bulk);
    let thread = json!({"id": "9", "guild_id": "1", "parent_id": "2", "type": 11});
    house.fake.report("THREAD_DELETE", thread);
    // An outage is no removal.
    for unavailable in [true, false] {
        let removed = json!({"id": "1", "unavailable": unavailable});
        house.fake.report("GUILD_DELETE", removed);
    }
    house.calls.until("removed 1").await;
    let mut expected = vec!["new session".to_owned()];
    expected.extend((100..140).map(|n| format!("message {n} in 2 (Text): hi")));
    expected.extend(
        [
            "edited 100: better",
            "deleted 101",
            "deleted 102,103",
            "gone 9",
            "removed 1",
        ]
        .map(str::to_owned),
    );
    assert_eq!(house.close().await, expected);
}

#[tokio::test]
async fn other_servers_bots_and_private_messages_end_at_the_door() {
    let house = House::new().await;
    let bot =
        json!({"id": "8", "username": "b", "discriminator": "1", "avatar": null, "bot": true});
    let foreign = with(message("100", "2", "foreign"), "guild_id", json!("3"));
    let private = with(message("101", "2", "private"), "guild_id", Value::Null);
    let by_bot = with(message("102", "2", "bot"), "author", bot);
    let own = with(message("103", "2", "own"), "author", user("99"));
    let pinned = with(message("104", "2", "pin"), "type", json!(6));
    let hook = with(message("105", "2", "hook"), "webhook_id", json!("44"));
    for unwanted in [foreign, private, by_bot, own, pinned, hook] {
        house.fake.report("MESSAGE_CREATE", unwanted);
    }
    house
        .fake
        .report("MESSAGE_CREATE", message("106", "2", "wanted"));
    let last = "message 106 in 2 (Text): wanted";
    house.calls.until(last).await;
    assert_eq!(house.close().await, ["new session", last]);
}

#[tokio::test]
async fn an_unknown_channel_is_asked_for_and_what_follows_waits_behind() {
    let thread = json!({"id": "6", "type": 11, "guild_id": "1", "parent_id": "2"});
    let house = House::with(move |seen| {
        (seen.line() == "GET channels/6").then(|| Said {
            after: Duration::from_millis(150),
            ..said(200, thread.clone())
        })
    })
    .await;
    house.settle().await;
    house
        .fake
        .report("MESSAGE_CREATE", message("100", "6", "one"));
    house
        .fake
        .report("MESSAGE_CREATE", message("101", "6", "two"));
    house.fake.report(
        "MESSAGE_DELETE",
        json!({"id": "100", "channel_id": "6", "guild_id": "1"}),
    );
    house
        .fake
        .report("MESSAGE_CREATE", message("102", "2", "elsewhere"));
    house.calls.until("deleted 100").await;
    assert_eq!(house.fake.seen_at("GET channels/6").len(), 1);
    assert_eq!(
        house.close().await,
        [
            "new session",
            "message 102 in 2 (Text): elsewhere",
            "message 100 in 6 (Thread): one",
            "message 101 in 6 (Thread): two",
            "deleted 100",
        ]
    );
}

#[tokio::test]
async fn a_channel_that_makes_no_sense_is_asked_for_once_a_message() {
    let house = House::with(|seen| {
        (seen.line() == "GET channels/6").then(|| said(200, json!({"id": "6"})))
    })
    .await;
    house.settle().await;
    house
        .fake
        .report("MESSAGE_CREATE", message("100", "6", "lost"));
    house.fake.report(
        "MESSAGE_DELETE",
        json!({"id": "100", "channel_id": "6", "guild_id": "1"}),
    );
    house.calls.until("deleted 100").await;
    assert_eq!(house.fake.seen_at("GET channels/6").len(), 1);
    assert_eq!(house.close().await, ["new session", "deleted 100"]);
}

#[tokio::test]
async fn a_message_that_the_sdk_cannot_read_is_heard_all_the_same() {
    let whole = message("101", "2", "without author");
    let house = House::with(move |seen| {
        let restored = with(whole.clone(), "member", Value::Null);
        match seen.line().as_str() {
            "GET channels/2/messages/101" => Some(said(200, restored)),
            "GET guilds/1/members/7" => Some(said(200, member())),
            _ => None,
        }
    })
    .await;
    house.settle().await;
    let snapshot = json!([{"message": {"content": "forwarded"}}]);
    let unreadable = with(message("100", "2", "odd"), "message_snapshots", snapshot);
    house.fake.report("MESSAGE_CREATE", unreadable);
    let nobody = with(message("101", "2", ""), "author", Value::Null);
    house.fake.report("MESSAGE_CREATE", nobody);
    let last = "message 101 in 2 (Text): without author";
    house.calls.until(last).await;
    assert_eq!(
        house.close().await,
        ["new session", "message 100 in 2 (Text): odd", last]
    );
}

#[tokio::test]
async fn a_command_is_acknowledged_then_carried_out_then_answered() {
    let house = House::new().await;
    let options = json!([text("project", "site"), text("prompt", "plot it")]);
    let asked = command("ask", options, json!({}));
    house.fake.report("INTERACTION_CREATE", asked.clone());
    let answer = house.fake.sees(ANSWER).await;
    let acknowledged = house.fake.sees(&callback_of(&asked)).await;
    assert_eq!(acknowledged.body["type"], 5);
    assert_eq!(acknowledged.body["data"]["flags"], 64);
    assert_eq!(answer.body["content"], "@everyone ask site by Ada: plot it");
    let nobody = json!({"parse": [], "users": [], "roles": [], "replied_user": false});
    assert_eq!(answer.body["allowed_mentions"], nobody);
    assert!(!answer.headers.contains_key("authorization"));
    house.close().await;
}

#[tokio::test]
async fn every_command_reaches_its_handler() {
    let member = json!({"name": "member", "type": 6, "value": "8"});
    let role = json!({"name": "role", "type": 8, "value": "70"});
    let users = json!({"users": {"8": user("8")}});
    let roles = json!({"roles": {"70": {
        "id": "70", "name": "team", "color": 0, "colors": {"primary_color": 0}, "hoist": false, "position": 1,
        "permissions": "0", "managed": false, "mentionable": false, "flags": 0}}});
    let level = json!({"name": "level", "type": 4, "value": 1});
    let project = text("project", "site");
    let subject = |subject: Subject| format!("{subject:?}");
    let ben = subject(Subject::Member(MemberId(8)));
    let team = subject(Subject::Role(RoleId(70)));
    let table = [
        (command("stop", json!([]), json!({})), "stop 2".to_owned()),
        (
            command("me", json!([]), json!({})),
            format!("me {:?} {:?}", [RoleId(5)], PlaceKind::Text),
        ),
        (command("usage", json!([]), json!({})), "usage".to_owned()),
        (command("grants", json!([]), json!({})), "grants".to_owned()),
        (
            command(
                "grant",
                json!([project, level, member, text("for_how_long", "7d")]),
                users.clone(),
            ),
            format!("grant {ben} site {:?} Some(\"7d\")", Level::Chat),
        ),
        (
            command("grant", json!([project, level, role]), roles),
            format!("grant {team} site {:?} None", Level::Chat),
        ),
        (
            command("revoke", json!([project, member]), users.clone()),
            format!("revoke {ben}"),
        ),
        (
            command("new", json!([]), json!({})),
            "chat 2 New".to_owned(),
        ),
        (
            command("fork", json!([]), json!({})),
            "chat 2 Fork".to_owned(),
        ),
        (
            command("details", json!([]), json!({})),
            "chat 2 Details".to_owned(),
        ),
        (
            command("model", json!([text("model", "opus")]), json!({})),
            "chat 2 Model(\"opus\")".to_owned(),
        ),
        (
            command(
                "listen",
                json!([{"name": "to", "type": 4, "value": 1}]),
                json!({}),
            ),
            "chat 2 Listen(Mentions)".to_owned(),
        ),
        (
            command("add-project", json!([project]), json!({})),
            "chat 2 AddProject(\"site\")".to_owned(),
        ),
        (
            command("projects", json!([]), json!({})),
            format!("act {:?}", Act::Projects),
        ),
        (
            command("guest", under("suspend", json!([member])), users.clone()),
            format!("act {:?}", Act::Suspend(MemberId(8))),
        ),
        (
            command(
                "guest",
                under("models", json!([member, text("models", "haiku")])),
                users.clone(),
            ),
            format!(
                "act {:?}",
                Act::Models(MemberId(8), Some("haiku".to_owned()))
            ),
        ),
        (
            command(
                "budget",
                under(
                    "guest",
                    json!([member, {"name": "dollars", "type": 10, "value": 2.5}]),
                ),
                users.clone(),
            ),
            format!("act {:?}", Act::GuestBudget(MemberId(8), Some(2.5))),
        ),
        (
            command("budget", under("project", json!([project])), json!({})),
            format!("act {:?}", Act::ProjectBudget("site".to_owned(), None)),
        ),
        (
            command("pause", json!([text("reason", "disk")]), json!({})),
            format!("act {:?}", Act::Pause("disk".to_owned())),
        ),
        (
            command("resume", json!([]), json!({})),
            format!("act {:?}", Act::Resume),
        ),
        (
            command("status", json!([]), json!({})),
            format!("act {:?}", Act::Status),
        ),
        (
            command("audit", json!([]), json!({})),
            format!("act {:?}", Act::Audit),
        ),
    ];
    let house = House::new().await;
    for (used, expected) in table {
        house.fake.report("INTERACTION_CREATE", used);
        house.calls.until(&expected).await;
    }
    house.close().await;
}

/// Returns the options of a subcommand.
fn under(name: &str, options: Value) -> Value {
    json!([{"name": name, "type": 1, "options": options}])
}

/// Returns what is answered to this command.
async fn answer_to(used: Value) -> (String, Vec<String>) {
    let house = House::new().await;
    house.fake.report("INTERACTION_CREATE", used);
    let answer = house.fake.sees(ANSWER).await;
    (
        wire::text(&answer.body["content"]).to_owned(),
        house.close().await,
    )
}

#[tokio::test]
async fn a_grant_needs_exactly_one_holder() {
    let level = json!({"name": "level", "type": 4, "value": 1});
    let options = json!([text("project", "site"), level]);
    let (answer, calls) = answer_to(command("grant", options, json!({}))).await;
    assert_eq!(answer, "Choose a member or a role.");
    assert_eq!(calls, ["new session"]);
}

#[tokio::test]
async fn a_command_that_is_not_known_any_more_is_answered() {
    let (answer, _) = answer_to(command("old", json!([]), json!({}))).await;
    assert!(
        answer.starts_with("I do not know this command any more."),
        "{answer}"
    );
}

#[tokio::test]
async fn a_command_that_breaks_is_answered() {
    let options = json!([text("project", "site"), text("prompt", "panic")]);
    let (answer, _) = answer_to(command("ask", options, json!({}))).await;
    assert!(
        answer.contains("Something went wrong on my side"),
        "{answer}"
    );
}

#[tokio::test]
async fn without_an_acknowledgement_nothing_happens() {
    let house = House::with(|seen| {
        seen.line().ends_with("TOKEN2/callback").then(|| {
            said(
                404,
                json!({"code": 10_062, "message": "Unknown interaction"}),
            )
        })
    })
    .await;
    house.settle().await;
    let late = command("stop", json!([]), json!({}));
    house.fake.report("INTERACTION_CREATE", late.clone());
    house.fake.sees(&callback_of(&late)).await;
    assert_eq!(house.close().await, ["new session"]);
}

#[tokio::test]
async fn a_replayed_interaction_is_left_alone() {
    let house = House::new().await;
    let fresh = command("usage", json!([]), json!({}));
    house.fake.report("INTERACTION_CREATE", fresh);
    house.calls.until("usage").await;
    let mut old = command("stop", json!([]), json!({}));
    let id: u64 = wire::id(&old["id"]).unwrap() - (4_000 << 22);
    old["id"] = json!(id.to_string());
    old["token"] = json!("OLD");
    house.fake.report("INTERACTION_CREATE", old.clone());
    house
        .fake
        .report("MESSAGE_CREATE", message("100", "2", "after"));
    house.calls.until("message 100 in 2 (Text): after").await;
    let fake = house.fake.clone();
    let calls = house.close().await;
    assert!(!calls.contains(&"stop 2".to_owned()));
    assert!(fake.seen_at(&callback_of(&old)).is_empty());
}

#[tokio::test]
async fn a_closed_line_is_told_in_the_channel_and_the_answer_is_not() {
    let house = House::with(|seen| {
        let gone = seen.line() == ANSWER;
        gone.then(|| said(404, json!({"code": 10_015, "message": "Unknown Webhook"})))
    })
    .await;
    house.settle().await;
    house
        .fake
        .report("INTERACTION_CREATE", command("usage", json!([]), json!({})));
    let said = house.fake.sees("POST channels/2/messages").await;
    let content = wire::text(&said.body["content"]);
    assert!(content.starts_with("<@7> I have an answer for you alone"));
    assert!(!content.contains("usage"), "{content}");
    assert_eq!(said.body["allowed_mentions"]["users"], json!(["7"]));
    house.close().await;
}

fn press(custom_id: &str) -> Value {
    let pressed = interaction(3, json!({"custom_id": custom_id, "component_type": 2}));
    let mut carrier = message("100", "2", "working");
    carrier["author"] = user("99");
    carrier["member"].take();
    with(pressed, "message", carrier)
}

#[tokio::test]
async fn a_button_is_acknowledged_passed_on_and_answered() {
    let house = House::new().await;
    let pressed = press("1:stop:12");
    house.fake.report("INTERACTION_CREATE", pressed.clone());
    let answer = house
        .fake
        .sees("PATCH webhooks/50/TOKEN3/messages/@original")
        .await;
    assert_eq!(answer.body["content"], "@everyone press 1:stop:12 on 100");
    let acknowledged = house.fake.sees(&callback_of(&pressed)).await;
    assert_eq!(acknowledged.body["type"], 5);
    house.close().await;
}

#[tokio::test]
async fn a_choice_of_a_menu_is_passed_on_with_its_value() {
    let house = House::new().await;
    let data = json!({"custom_id": "1:project:12", "component_type": 3, "values": ["site"]});
    let chosen = with(press("1:project:12"), "data", data);
    house.fake.report("INTERACTION_CREATE", chosen);
    house.calls.until("press 1:project:12site on 100").await;
    house.close().await;
}

#[tokio::test]
async fn a_button_that_is_not_ours_is_declined() {
    let house = House::new().await;
    let pressed = press("0:launch:12");
    house.fake.report("INTERACTION_CREATE", pressed.clone());
    let declined = house.fake.sees(&callback_of(&pressed)).await;
    assert_eq!(declined.body["type"], 4);
    assert_eq!(declined.body["data"]["flags"], 64);
    assert_eq!(house.close().await, ["new session"]);
}

#[tokio::test]
async fn options_are_completed() {
    let house = House::new().await;
    let typed = json!({"name": "project", "type": 3, "value": "si", "focused": true});
    let typing = interaction(
        4,
        json!({"id": "60", "name": "ask", "type": 1, "options": [typed]}),
    );
    house.fake.report("INTERACTION_CREATE", typing.clone());
    let completed = house.fake.sees(&callback_of(&typing)).await;
    assert_eq!(completed.body["type"], 8);
    let choices = json!([{"name": "project-ask-si", "value": "project-ask-si"}]);
    assert_eq!(completed.body["data"]["choices"], choices);
    house.close().await;
}

#[tokio::test]
async fn an_interaction_that_the_sdk_cannot_read_is_answered() {
    let house = House::new().await;
    let odd = with(command("ask", json!([]), json!({})), "locale", Value::Null);
    house.fake.report("INTERACTION_CREATE", odd.clone());
    let declined = house.fake.sees(&callback_of(&odd)).await;
    assert_eq!(declined.body["type"], 4);
    house.close().await;
}

#[tokio::test]
async fn commands_are_registered_with_the_server_and_stale_global_ones_taken_away() {
    let kept: Arc<Mutex<Value>> = Arc::new(Mutex::new(json!([])));
    let commands = Arc::clone(&kept);
    let script = move |seen: &Seen| match seen.line().as_str() {
        "GET applications/50/commands" => Some(said(200, json!([{"name": "old", "type": 1}]))),
        "GET applications/50/guilds/1/commands" => {
            Some(said(200, commands.lock().unwrap().clone()))
        }
        "PUT applications/50/guilds/1/commands" => {
            *commands.lock().unwrap() = seen.body.clone();
            None
        }
        _ => None,
    };
    let house = House::with(script.clone()).await;
    let written = house
        .fake
        .sees("PUT applications/50/guilds/1/commands")
        .await;
    let cleared = house.fake.sees("PUT applications/50/commands").await;
    assert_eq!(cleared.body, json!([]));
    let names: Vec<&str> = wire::list(&written.body)
        .iter()
        .map(|c| wire::text(&c["name"]))
        .collect();
    assert_eq!(
        names,
        [
            "ask",
            "stop",
            "new",
            "fork",
            "model",
            "listen",
            "add-project",
            "details",
            "me",
            "projects",
            "usage",
            "grant",
            "revoke",
            "grants",
            "guest",
            "budget",
            "spend",
            "audit",
            "status",
            "pause",
            "resume"
        ]
    );
    house.close().await;

    let again = House::with(script).await;
    again
        .fake
        .sees("GET applications/50/guilds/1/commands")
        .await;
    let fake = again.fake.clone();
    again.close().await;
    assert!(
        fake.seen_at("PUT applications/50/guilds/1/commands")
            .is_empty()
    );
}

#[tokio::test]
async fn the_session_asks_for_no_more_than_it_needs() {
    let house = House::new().await;
    let said = house.fake.session().await;
    assert_eq!(said["intents"], 33_281);
    house.close().await;
}

async fn refused_with(code: u16) -> Fatal {
    let fake = Fake::start(|seen| match seen.path.as_str() {
        "gateway" | "gateway/bot" => gateway_is_here(),
        _ => said(200, json!([])),
    })
    .await;
    fake.refuse_with(code);
    let house = House::at(fake);
    let served = tokio::time::timeout(Duration::from_secs(20), house.served).await;
    served.expect("the bot ends").unwrap().unwrap_err()
}

#[tokio::test]
async fn a_refused_token_or_intent_ends_the_bot() {
    assert_eq!(refused_with(4004).await, Fatal::Token);
    let Fatal::Intents(sentence) = refused_with(4014).await else {
        panic!("a close with 4014 is about intents");
    };
    assert!(sentence.contains("Message Content Intent"), "{sentence}");
    assert!(matches!(refused_with(4013).await, Fatal::Intents(_)));
}

#[tokio::test]
async fn a_token_that_rest_refuses_ends_the_bot() {
    let house = House::with(|_| Some(said(401, json!({"message": "401: Unauthorized"})))).await;
    let served = tokio::time::timeout(Duration::from_secs(20), house.served).await;
    assert_eq!(served.unwrap().unwrap(), Err(Fatal::Token));
}

#[tokio::test]
async fn places_from_the_gateway_serve_the_bots_hands() {
    let house = House::new().await;
    house
        .fake
        .report("MESSAGE_CREATE", message("100", "4", "voice"));
    house.calls.until("message 100 in 4 (Other): voice").await;
    assert!(
        house
            .fake
            .seen_at(&format!("GET channels/{}", ChannelId(4)))
            .is_empty()
    );
    house.close().await;
}

#[tokio::test]
async fn what_was_missed_is_read_where_something_new_stands() {
    let script = |seen: &Seen| match seen.line().as_str() {
        "GET channels/2/messages" => Some(said(
            200,
            match wire::text(&seen.query["after"]) {
                "200" => {
                    let newer = (201..=300).rev().map(|n| past(n, "7"));
                    newer.collect()
                }
                "300" => json!([past(302, "8"), past(301, "99")]),
                _ => json!([]),
            },
        )),
        "GET guilds/1/members/7" => Some(said(200, member())),
        "GET guilds/1/members/8" => Some(said(404, json!({"code": 10_007}))),
        _ => None,
    };
    let house = House::with(script).await;
    house.fake.session().await;
    let mut guild = guild();
    guild["channels"][0]["last_message_id"] = json!("302");
    guild["channels"][1]["last_message_id"] = json!("150");
    house.fake.report("GUILD_CREATE", guild);
    house.calls.until("new session").await;
    let missed = house.hands.read_missed(MessageId(200)).await;
    let ids: Vec<u64> = missed.iter().map(|message| message.id.0).collect();
    let expected: Vec<u64> = (201..=300).chain([302]).collect();
    assert_eq!(ids, expected);
    assert_eq!(missed[0].author.roles, [RoleId(5)]);
    assert_eq!(missed[100].author.roles, []);
    assert_eq!(missed[0].place.guild, GuildId(1));
    assert_eq!(house.fake.seen_at("GET guilds/1/members/7").len(), 1);
    assert!(house.fake.seen_at("GET channels/4/messages").is_empty());
    house.close().await;
}

/// Returns a message as the history has it: without server and member.
fn past(id: u64, author: &str) -> Value {
    let mut message = with(message(&id.to_string(), "2", "hi"), "author", user(author));
    message["guild_id"].take();
    message["member"].take();
    message
}

/// Returns a listener on a Discord that does not answer.
pub(super) fn listener(calls: &Calls) -> super::listener::Listener {
    let url = Url::parse("http://127.0.0.1:1").unwrap();
    let rest = rest::Rest::new(&url, &SecretString::from("a.b.c")).unwrap();
    super::listener::Listener::new(rest, Arc::default(), rules(), handlers(calls))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_comes_does_not_hold_up_the_session_for_ever() {
    let calls = quiet();
    let mut listener = listener(&calls);
    let began = tokio::time::Instant::now();
    listener.report(
        "READY",
        &json!({"user": {"id": "99"}, "guilds": [{"id": "1"}]}),
    );
    assert!(calls.0.borrow().is_empty());
    listener.pump().await;
    assert_eq!(*calls.0.borrow(), ["new session"]);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_session_without_our_server_is_reported_at_once() {
    let calls = quiet();
    let ready = json!({"user": {"id": "99"}, "guilds": [{"id": "3"}]});
    listener(&calls).report("READY", &ready);
    assert_eq!(*calls.0.borrow(), ["new session"]);
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_cannot_be_asked_for_now_stops_no_other() {
    let calls = quiet();
    let mut listener = listener(&calls);
    listener.report("MESSAGE_CREATE", &message("100", "6", "later"));
    let deleted = json!({"id": "100", "channel_id": "6", "guild_id": "1"});
    listener.report("MESSAGE_DELETE", &deleted);
    assert!(
        calls.0.borrow().is_empty(),
        "what follows in that channel waits behind it"
    );
    let elsewhere = json!({"id": "101", "channel_id": "2", "guild_id": "1"});
    listener.report("MESSAGE_DELETE", &elsewhere);
    assert_eq!(*calls.0.borrow(), ["deleted 101"]);
}

#[tokio::test]
async fn the_sdk_gives_back_what_it_reads() {
    for (kind, data) in [
        ("GUILD_CREATE", guild()),
        ("MESSAGE_CREATE", message("100", "2", "x")),
    ] {
        let event = json!({"t": kind, "d": data});
        let event: serenity::all::Event = serde_json::from_value(event).unwrap();
        let written = serde_json::to_value(event).unwrap();
        assert_eq!(written["t"], kind);
        for key in [
            "id",
            "type",
            "premium_tier",
            "features",
            "content",
            "mentions",
        ] {
            assert_eq!(written["d"][key], data[key], "{kind} {key}");
        }
        assert_eq!(
            written["d"]["roles"][0]["tags"]["bot_id"],
            data["roles"][0]["tags"]["bot_id"]
        );
        assert_eq!(written["d"]["member"]["roles"], data["member"]["roles"]);
        let channels = |value: &Value| wire::list(&value["channels"]).len();
        assert_eq!(channels(&written["d"]), channels(&data));
    }
}

/// The SDK spins without yielding after such a close; what matters is that nothing else stands still, and that the bot
/// ends in time all the same.
#[tokio::test]
async fn a_close_without_a_code_stops_no_timer_of_the_bot() {
    let house = House::new().await;
    house.fake.hang_up();
    let mut worst = Duration::ZERO;
    for _ in 0..40 {
        let due = tokio::time::Instant::now() + Duration::from_millis(50);
        tokio::time::sleep_until(due).await;
        worst = worst.max(due.elapsed());
    }
    assert!(
        worst < Duration::from_millis(500),
        "a timer was {worst:?} late"
    );
    house.close().await;
}

/// Waits until the gateway reports this.
async fn hears(gateway: &mut super::gateway::Gateway, wanted: &str) {
    while let Some((_, event)) = gateway.heard.recv().await {
        if event.name().as_deref() == Some(wanted) {
            return;
        }
    }
    panic!("the gateway ended before {wanted}");
}

#[tokio::test]
async fn a_connection_is_well_while_it_stands_and_unwell_while_it_hangs() {
    let fake = Fake::start(|_| gateway_is_here()).await;
    let token = SecretString::from("a.b.c");
    let started = super::gateway::Gateway::start(&token, &fake.url, fake.gateway_url()).await;
    let Ok(mut gateway) = started else {
        panic!("the gateway starts");
    };
    for wanted in ["READY", "RESUMED"] {
        hears(&mut gateway, wanted).await;
        let well = async { while !gateway.control.is_well().await {} };
        tokio::time::timeout(Duration::from_secs(10), well)
            .await
            .unwrap();
        if wanted == "READY" {
            fake.ask_to_reconnect();
        }
    }
    fake.hang_up();
    let unwell = async { while gateway.control.is_well().await {} };
    tokio::time::timeout(Duration::from_secs(15), unwell)
        .await
        .unwrap();
    gateway.close().await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_line_holds_a_token_an_address_or_what_somebody_wrote() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("innkeeper=trace")
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // Whatever is asked, beside the gateway, fails in one way or another.
    let house = House::with(|seen| match seen.line().as_str() {
        "GET gateway" | "GET gateway/bot" => None,
        line if line.ends_with("TOKEN2/callback") => Some(said(200, json!({}))),
        line if line.starts_with("PATCH webhooks") => Some(said(404, json!({"code": 10_015}))),
        _ => Some(said(
            400,
            json!({"code": 50_035, "message": "Invalid Form Body"}),
        )),
    })
    .await;
    house.settle().await;
    let secret = message("100", "2", "SECRET WORDS");
    let snapshots = json!([{"message": {"content": "SECRET WORDS"}}]);
    house.fake.report(
        "MESSAGE_CREATE",
        with(secret, "message_snapshots", snapshots),
    );
    let options = json!([text("project", "site"), text("prompt", "SECRET WORDS")]);
    let asked = command("ask", options, json!({}));
    house.fake.report("INTERACTION_CREATE", asked);
    house
        .fake
        .report("INTERACTION_CREATE", press("SECRET WORDS"));
    house.fake.sees("POST channels/2/messages").await;
    house.close().await;
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("could not read an event"), "{lines}");
    assert!(lines.contains("could not be answered"), "{lines}");
    for kept in ["TOKEN", "a.b.c", "SECRET", "http://", "@everyone"] {
        assert!(!lines.contains(kept), "{kept} in {lines}");
    }
}
