//! What the stand-in's tests share: a running stand-in, a person's hand, the bot's REST, serenity's
//! ear.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use innkeeper::standin::{Standin, World};
use serde_json::{Value, json};
use serenity::all as discord;
use serenity::async_trait;
use tokio::sync::mpsc;

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A running stand-in and the way to talk to it.
pub(crate) struct House {
    pub(crate) standin: Standin,
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
    pub(crate) bot: u64,
    pub(crate) guild: u64,
}

impl House {
    pub(crate) async fn open() -> House {
        House::of(World::demo()).await
    }

    pub(crate) async fn of(world: World) -> House {
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
    pub(crate) async fn try_act(&self, action: Value) -> (u16, Value) {
        let url = format!("{}/standin/act", self.standin.url());
        let response = self.http.post(url).json(&action).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Does something as a person that must succeed.
    pub(crate) async fn act(&self, action: Value) -> Value {
        let (status, answer) = self.try_act(action.clone()).await;
        assert_eq!(status, 200, "{action} was answered {answer}");
        answer
    }

    /// Says something and returns the message's id.
    pub(crate) async fn say(&self, name: &str, place: &str, text: &str) -> String {
        let said = self
            .act(json!({"as": name, "do": "say", "in": place, "text": text}))
            .await;
        said["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn fault(&self, rule: Value) {
        let url = format!("{}/standin/faults", self.standin.url());
        let response = self.http.post(url).json(&rule).send().await.unwrap();
        assert_eq!(response.status(), 200, "{rule}");
    }

    pub(crate) async fn own(&self, path: &str) -> Value {
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
    pub(crate) async fn rest(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let response = self.rest_raw(method, path, body).await.unwrap();
        let status = response.status().as_u16();
        (
            status,
            serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null),
        )
    }

    pub(crate) async fn rest_raw(
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
    pub(crate) async fn channel(&self, name: &str) -> String {
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
    pub(crate) async fn serenity(&self, intents: discord::GatewayIntents) -> Listener {
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
        Listener {
            heard,
            before: vec![],
            task,
        }
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

pub(crate) struct Listener {
    heard: mpsc::UnboundedReceiver<discord::Event>,
    /// The names of the events that came and were not waited for.
    pub(crate) before: Vec<String>,
    pub(crate) task: tokio::task::JoinHandle<Result<(), serenity::Error>>,
}

impl Listener {
    /// Waits for the next event that fits; fails when none comes in time.
    async fn waits(
        &mut self,
        what: &str,
        fits: impl Fn(&discord::Event) -> bool,
    ) -> discord::Event {
        let before = &mut self.before;
        let waiting = async {
            loop {
                let event = self.heard.recv().await.expect("the client lives");
                if fits(&event) {
                    return event;
                }
                if let discord::Event::Unknown(unknown) = &event {
                    panic!("serenity cannot read {unknown:?}");
                }
                before.push(event.name().unwrap_or_default());
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(event) => event,
            Err(_) => panic!("{what} did not come, but {:?}", self.before),
        }
    }

    /// Waits for an event of this name; fails on any event that serenity cannot read.
    pub(crate) async fn hears(&mut self, name: &str) -> discord::Event {
        self.before.clear();
        let readable = |event: &discord::Event| !matches!(event, discord::Event::Unknown(_));
        self.waits(name, |event| {
            readable(event) && event.name().as_deref() == Some(name)
        })
        .await
    }

    /// Waits for an event of this name unless it came while another was waited for.
    pub(crate) async fn hears_or_heard(&mut self, name: &str) {
        if !self.before.iter().any(|heard| heard == name) {
            self.hears(name).await;
        }
    }

    /// Waits for a message and returns its text.
    pub(crate) async fn hears_text(&mut self) -> String {
        match self.hears("MESSAGE_CREATE").await {
            discord::Event::MessageCreate(event) => event.message.content,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for an event that serenity cannot read.
    pub(crate) async fn hears_unreadable(&mut self, name: &str) {
        let fits = |event: &discord::Event| match event {
            discord::Event::Unknown(unknown) => unknown.kind == name,
            _ => false,
        };
        self.waits(name, fits).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) const INTENTS: discord::GatewayIntents = discord::GatewayIntents::GUILDS
    .union(discord::GatewayIntents::GUILD_MESSAGES)
    .union(discord::GatewayIntents::GUILD_MESSAGE_REACTIONS)
    .union(discord::GatewayIntents::DIRECT_MESSAGES)
    .union(discord::GatewayIntents::MESSAGE_CONTENT);

/// Answers interactions as a bot would, by REST, with what the test gives.
pub(crate) async fn answers_with(
    house: &House,
    event: discord::Event,
    kind: u8,
    data: Value,
) -> (u16, Value) {
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

pub(crate) fn commands() -> Value {
    json!([
        {"name": "grant", "description": "Grants", "options": [
            {"type": 6, "name": "member", "description": "who", "required": true},
            {"type": 3, "name": "project", "description": "what", "required": true, "autocomplete": true},
        ]},
        {"name": "guest", "description": "Guests", "default_member_permissions": 32, "options": [
            {"type": 1, "name": "show", "description": "Shows"},
        ]},
    ])
}

impl House {
    pub(crate) async fn register(&self) {
        let path = format!("/applications/{}/guilds/{}/commands", self.bot, self.guild);
        let (status, registered) = self.rest("PUT", &path, commands()).await;
        assert_eq!((status, registered.as_array().unwrap().len()), (200, 2));
    }
}
