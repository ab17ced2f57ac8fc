//! The stand-in for Discord, seen from outside: serenity connects to it, people act, and every event decodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use innkeeper::standin::{Standin, World};
use serde_json::{Value, json};
use serenity::all as discord;
use serenity::async_trait;
use tokio::sync::mpsc;

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A running stand-in and the way to talk to it.
struct House {
    standin: Standin,
    http: reqwest::Client,
    token: String,
    bot: u64,
    guild: u64,
}

impl House {
    async fn open() -> House {
        House::of(World::demo()).await
    }

    async fn of(world: World) -> House {
        let (token, bot, guild) = (
            world.bot_token().to_owned(),
            world.bot_id(),
            world.guild_id(),
        );
        let standin = Standin::start(any_port(), world).await.unwrap();
        House {
            standin,
            http: reqwest::Client::new(),
            token,
            bot,
            guild,
        }
    }

    /// Does something as a person and returns the answer with its status.
    async fn try_act(&self, action: Value) -> (u16, Value) {
        let url = format!("{}/standin/act", self.standin.url());
        let response = self.http.post(url).json(&action).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Does something as a person that must succeed.
    async fn act(&self, action: Value) -> Value {
        let (status, answer) = self.try_act(action.clone()).await;
        assert_eq!(status, 200, "{action} was answered {answer}");
        answer
    }

    /// Says something and returns the message's id.
    async fn say(&self, name: &str, place: &str, text: &str) -> String {
        let said = self
            .act(json!({"as": name, "do": "say", "in": place, "text": text}))
            .await;
        said["id"].as_str().unwrap().to_owned()
    }

    async fn fault(&self, rule: Value) {
        let url = format!("{}/standin/faults", self.standin.url());
        let response = self.http.post(url).json(&rule).send().await.unwrap();
        assert_eq!(response.status(), 200, "{rule}");
    }

    async fn own(&self, path: &str) -> Value {
        self.http
            .get(format!("{}{path}", self.standin.url()))
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    }

    /// Sends a REST request as the bot.
    async fn rest(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let response = self.rest_raw(method, path, body).await.unwrap();
        let status = response.status().as_u16();
        (
            status,
            serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null),
        )
    }

    async fn rest_raw(
        &self,
        method: &str,
        path: &str,
        body: Value,
    ) -> reqwest::Result<reqwest::Response> {
        let url = format!("{}/api/v10{path}", self.standin.url());
        let mut request = self.http.request(method.parse().unwrap(), url);
        request = request.header("authorization", format!("Bot {}", self.token));
        if !body.is_null() {
            request = request.json(&body);
        }
        request.send().await
    }

    /// Finds a channel's id.
    async fn channel(&self, name: &str) -> String {
        let world = self.own("/standin/world").await;
        let channels = world["guilds"][0]["channels"].as_array().unwrap().clone();
        channels
            .iter()
            .find(|channel| channel["name"] == name)
            .unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Connects serenity; what it hears comes out of the receiver.
    async fn serenity(&self, intents: discord::GatewayIntents) -> Listener {
        let (tell, heard) = mpsc::unbounded_channel();
        let http = discord::HttpBuilder::new(&self.token)
            .proxy(self.standin.url())
            .ratelimiter_disabled(true)
            .application_id(discord::ApplicationId::new(self.bot))
            .build();
        let mut client = discord::ClientBuilder::new_with_http(http, intents)
            .raw_event_handler(Ear { tell })
            .await
            .unwrap();
        let gateway = format!("ws://{}/gateway", self.standin.address());
        client.ws_url = Arc::new(tokio::sync::Mutex::new(gateway));
        let task = tokio::spawn(async move { client.start().await });
        Listener { heard, task }
    }
}

struct Ear {
    tell: mpsc::UnboundedSender<discord::Event>,
}

#[async_trait]
impl discord::RawEventHandler for Ear {
    async fn raw_event(&self, _: discord::Context, event: discord::Event) {
        let _ = self.tell.send(event);
    }
}

struct Listener {
    heard: mpsc::UnboundedReceiver<discord::Event>,
    task: tokio::task::JoinHandle<Result<(), serenity::Error>>,
}

impl Listener {
    /// Waits for an event of this name; fails on any event that serenity cannot read.
    async fn hears(&mut self, name: &str) -> discord::Event {
        let mut before = vec![];
        let waiting = async {
            loop {
                let event = self.heard.recv().await.expect("the client lives");
                if let discord::Event::Unknown(unknown) = &event {
                    panic!("serenity cannot read {unknown:?}");
                }
                let heard = event.name().unwrap_or_default();
                if heard == name {
                    return event;
                }
                before.push(heard);
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(event) => event,
            Err(_) => panic!("{name} did not come, but {before:?}"),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const INTENTS: discord::GatewayIntents = discord::GatewayIntents::GUILDS
    .union(discord::GatewayIntents::GUILD_MESSAGES)
    .union(discord::GatewayIntents::GUILD_MESSAGE_REACTIONS)
    .union(discord::GatewayIntents::DIRECT_MESSAGES)
    .union(discord::GatewayIntents::MESSAGE_CONTENT);

#[tokio::test]
async fn serenity_reads_every_kind_of_event() {
    let house = House::open().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("READY").await;
    ear.hears("GUILD_CREATE").await;

    let hello = house.say("ada", "general", "@innkeeper hello").await;
    let discord::Event::MessageCreate(event) = ear.hears("MESSAGE_CREATE").await else {
        unreachable!()
    };
    assert_eq!(event.message.content, format!("<@{}> hello", house.bot));
    assert_eq!(event.message.mentions[0].id.get(), house.bot);
    assert_eq!(event.message.guild_id.unwrap().get(), house.guild);

    house
        .act(json!({"as": "ada", "do": "edit", "message": hello, "text": "other"}))
        .await;
    ear.hears("MESSAGE_UPDATE").await;
    house
        .act(json!({"as": "ben", "do": "react", "message": hello, "emoji": "👀"}))
        .await;
    ear.hears("MESSAGE_REACTION_ADD").await;
    house
        .act(json!({"as": "ben", "do": "unreact", "message": hello, "emoji": "👀"}))
        .await;
    ear.hears("MESSAGE_REACTION_REMOVE").await;

    for action in [
        json!({"do": "say", "in": "general", "text": "re", "reply_to": hello}),
        json!({"do": "say", "in": "general", "text": "x", "files": [{"name": "a.csv", "base64": "YSxi"}]}),
        json!({"do": "sticker", "in": "general"}),
        json!({"do": "voice", "in": "general"}),
        json!({"do": "forward", "in": "general", "message": hello}),
        json!({"do": "poll", "in": "general", "question": "tea?"}),
        json!({"do": "say", "in": "@innkeeper", "text": "psst"}),
    ] {
        let mut action = action;
        action["as"] = json!("ben");
        house.act(action).await;
        ear.hears("MESSAGE_CREATE").await;
    }

    let thread = house
        .act(json!({"as": "ada", "do": "thread", "message": hello, "name": "talk"}))
        .await;
    assert_eq!(thread["id"], json!(hello));
    ear.hears("THREAD_CREATE").await;
    ear.hears("MESSAGE_UPDATE").await;
    house.say("ben", "talk", "@innkeeper in here").await;
    ear.hears("THREAD_MEMBERS_UPDATE").await;
    house
        .act(json!({"as": "ada", "do": "archive", "in": "talk"}))
        .await;
    ear.hears("THREAD_UPDATE").await;
    house
        .act(json!({"as": "olga", "do": "delete-thread", "in": "talk"}))
        .await;
    ear.hears("THREAD_DELETE").await;

    house
        .act(json!({"as": "innkeeper", "do": "nick", "nick": "Host"}))
        .await;
    ear.hears("GUILD_MEMBER_UPDATE").await;
    house
        .act(json!({"as": "ada", "do": "delete", "message": hello}))
        .await;
    ear.hears("MESSAGE_DELETE").await;
    let (one, two) = (
        house.say("ada", "data", "1").await,
        house.say("ada", "data", "2").await,
    );
    house
        .act(json!({"as": "olga", "do": "delete", "messages": [one, two]}))
        .await;
    ear.hears("MESSAGE_DELETE_BULK").await;
    house
        .act(json!({"as": "olga", "do": "rename", "in": "data", "name": "figures"}))
        .await;
    ear.hears("CHANNEL_UPDATE").await;
    house
        .act(json!({"as": "olga", "do": "delete-channel", "in": "figures"}))
        .await;
    ear.hears("CHANNEL_DELETE").await;
}

/// Answers interactions as a bot would, by REST, with what the test gives.
async fn answers_with(house: &House, event: discord::Event, kind: u8, data: Value) -> (u16, Value) {
    let discord::Event::InteractionCreate(event) = event else {
        panic!("{event:?}")
    };
    let path = format!(
        "/interactions/{}/{}/callback",
        event.interaction.id(),
        event.interaction.token()
    );
    house
        .rest("POST", &path, json!({"type": kind, "data": data}))
        .await
}

fn commands() -> Value {
    json!([
        {"name": "grant", "description": "Grants", "options": [
            {"type": 6, "name": "member", "description": "who", "required": true},
            {"type": 3, "name": "project", "description": "what", "required": true, "autocomplete": true},
        ]},
        {"name": "guest", "description": "Guests", "default_member_permissions": "32", "options": [
            {"type": 1, "name": "show", "description": "Shows"},
        ]},
    ])
}

impl House {
    async fn register(&self) {
        let path = format!("/applications/{}/guilds/{}/commands", self.bot, self.guild);
        let (status, registered) = self.rest("PUT", &path, commands()).await;
        assert_eq!((status, registered.as_array().unwrap().len()), (200, 2));
    }
}

#[tokio::test]
async fn a_command_reaches_the_bot_with_its_options_and_its_answer_comes_back() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;
    let command = json!({"as": "ada", "do": "command", "in": "data", "name": "grant",
        "options": {"member": "ben", "project": "site"}});
    let asked = house.act(command);
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        let discord::Event::InteractionCreate(ref create) = event else {
            unreachable!()
        };
        let command = create.interaction.as_command().unwrap();
        assert!(matches!(
            command.data.options[0].value,
            discord::CommandDataOptionValue::User(_)
        ));
        assert_eq!(
            command.data.resolved.users.values().next().unwrap().name,
            "ben"
        );
        let (status, _) =
            answers_with(&house, event, 4, json!({"content": "granted", "flags": 64})).await;
        assert_eq!(status, 204);
    };
    let (answer, ()) = tokio::join!(asked, answered);
    assert_eq!(
        (&answer["reply"]["content"], &answer["reply"]["ephemeral"]),
        (&json!("granted"), &json!(true))
    );
    assert!(answer["modal"].is_null());
}

#[tokio::test]
async fn suggestions_a_form_and_a_button_go_their_whole_way() {
    let house = House::open().await;
    house.register().await;
    let mut ear = house.serenity(INTENTS).await;
    ear.hears("GUILD_CREATE").await;

    let asked = house.act(
        json!({"as": "ada", "do": "complete", "in": "data", "name": "grant",
        "options": {"project": "si"}, "focused": "project"}),
    );
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(
            &house,
            event,
            8,
            json!({"choices": [{"name": "Site", "value": "site"}]}),
        )
        .await
    };
    let (answer, (status, _)) = tokio::join!(asked, answered);
    assert_eq!(
        (status, &answer["choices"][0]["value"]),
        (204, &json!("site"))
    );

    let channel = house.channel("data").await;
    let button = json!({"type": 2, "style": 4, "label": "Stop", "custom_id": "stop:1"});
    let body = json!({"content": "working", "components": [{"type": 1, "components": [button]}]});
    let (_, message) = house
        .rest("POST", &format!("/channels/{channel}/messages"), body)
        .await;
    let asked =
        house.act(json!({"as": "ben", "do": "press", "message": message["id"], "button": "Stop"}));
    let form = json!({"custom_id": "why", "title": "Why?", "components": [{"type": 1, "components": [
        {"type": 4, "custom_id": "reason", "label": "Reason", "style": 1, "required": true}]}]});
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(&house, event, 9, form).await
    };
    let (pressed, _) = tokio::join!(asked, answered);
    assert_eq!(pressed["modal"]["title"], "Why?");

    let empty =
        json!({"as": "ben", "do": "submit", "interaction": pressed["interaction"], "fields": {}});
    let (status, refused) = house.try_act(empty).await;
    assert_eq!(
        (status, refused["reason"].as_str().unwrap()),
        (400, "the field \"Reason\" is required")
    );
    let asked = house.act(
        json!({"as": "ben", "do": "submit", "interaction": pressed["interaction"],
        "fields": {"reason": "enough"}}),
    );
    let answered = async {
        let event = ear.hears("INTERACTION_CREATE").await;
        answers_with(
            &house,
            event,
            7,
            json!({"content": "stopped", "components": []}),
        )
        .await
    };
    let (_, (status, _)) = tokio::join!(asked, answered);
    assert_eq!(status, 204);
    let (_, message) = house
        .rest(
            "GET",
            &format!(
                "/channels/{channel}/messages/{}",
                message["id"].as_str().unwrap()
            ),
            Value::Null,
        )
        .await;
    assert_eq!(
        (&message["content"], &message["components"]),
        (&json!("stopped"), &json!([]))
    );
}
