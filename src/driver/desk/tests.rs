//! What the desk makes of what arrives. No turn ever runs here: what is let in waits in the store.

use std::time::Duration;

use super::*;
use crate::domain::grant::Subject;
use crate::domain::guest::Guest;
use crate::domain::ids::{AttachmentId, InteractionId};
use crate::domain::project::Catalogue;
use crate::domain::request::Attachment;
use crate::domain::samples::{
    ADA, GUILD, chat, grant, permit, person, project, rules, slug, turn, usd,
};
use crate::domain::time::Moment;
use crate::driver::clock::TokioClock;
use crate::driver::fakes::{FakeSurface, Said, house};
use crate::store::Store;

/// 2026-11-15 12:00 UTC.
const NOW: Moment = Moment(1_794_744_000_000);
const BEN: MemberId = MemberId(3);
const CLEO: MemberId = MemberId(60);
const HALL: ChannelId = ChannelId(600);
const THREAD: ThreadId = ThreadId(700);

struct Lobby {
    _home: tempfile::TempDir,
    house: Arc<House>,
    surface: FakeSurface,
    desk: Desk,
    serial: u64,
}

impl Lobby {
    /// Ada and Ben have money, and `chat` on two projects.
    fn open() -> Lobby {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(&home.path().join("store")).unwrap();
        let surface = FakeSurface::new(Arc::new(TokioClock::starting_at(NOW)));
        let catalogue = Catalogue(vec![project("site"), project("notes")]);
        let house = house(&surface, &store, rules(), catalogue, home.path());
        for member in [ADA, BEN] {
            let guest = Guest {
                budget: Some(usd(1.0)),
                ..Guest::new(member)
            };
            store.put_guest(&guest).unwrap();
            for name in ["site", "notes"] {
                let grant = grant(Subject::Member(member), name, Level::Chat, None);
                store.give(&grant).unwrap();
            }
        }
        Lobby {
            _home: home,
            desk: Desk::new(house.clone()),
            house,
            surface,
            serial: 0,
        }
    }

    fn store(&self) -> &Store {
        &self.house.store
    }

    /// No chat looks at its requests: they stay as the desk made them.
    fn rests(&self) {
        self.house.cancel.cancel();
    }

    /// Ada's chat in [`THREAD`], which takes these messages for requests.
    fn chat(&self, listen: Listen) {
        let chat = Chat {
            listen,
            ..chat(THREAD)
        };
        self.store().put_chat(&chat).unwrap();
    }

    fn message(&mut self, by: MemberId, channel: ChannelId, text: &str) -> InboundMessage {
        self.serial += 1;
        let kind = match channel {
            HALL => PlaceKind::Text,
            _ => PlaceKind::Thread,
        };
        InboundMessage {
            id: MessageId(MessageId::at(self.house.now()).0 + self.serial),
            place: Place {
                guild: GUILD,
                channel,
                parent: (kind == PlaceKind::Thread).then_some(HALL),
                kind,
            },
            author: person(by, &[]),
            text: text.to_owned(),
            addressed: false,
            for_others: false,
            withheld: false,
            attachments: Vec::new(),
            quotes: Vec::new(),
            described: Vec::new(),
        }
    }

    /// Somebody writes without a mention.
    async fn says(&mut self, by: MemberId, channel: ChannelId, text: &str) -> MessageId {
        let message = self.message(by, channel, text);
        self.hears(message).await
    }

    /// Somebody writes with a mention.
    async fn asks(&mut self, by: MemberId, channel: ChannelId, text: &str) -> MessageId {
        let message = self.message(by, channel, text);
        self.hears(InboundMessage {
            addressed: true,
            ..message
        })
        .await
    }

    async fn hears(&self, message: InboundMessage) -> MessageId {
        let id = message.id;
        self.desk.inbound(Inbound::Message(message)).await;
        id
    }

    async fn edits(&self, message: MessageId, channel: ChannelId, text: &str) {
        let text = text.to_owned();
        self.desk
            .inbound(Inbound::Edited {
                message,
                channel,
                text,
            })
            .await;
    }

    async fn deletes(&self, message: MessageId, channel: ChannelId) {
        let messages = vec![message];
        self.desk
            .inbound(Inbound::Deleted { messages, channel })
            .await;
    }

    async fn presses(&mut self, by: MemberId, id: String, values: &[&str]) -> Reply {
        self.serial += 1;
        let press = InboundPress {
            id: InteractionId(MessageId::at(self.house.now()).0 + self.serial),
            guild: GUILD,
            channel: HALL,
            message: MessageId(900),
            by: person(by, &[]),
            custom_id: id,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        self.desk.press(press).await
    }

    async fn chooses(&mut self, by: MemberId, asked: MessageId, project: &str) -> String {
        let id = Choice::Project(TurnId(asked.0)).id();
        self.presses(by, id, &[project]).await.text
    }

    async fn stops(&mut self, by: MemberId, channel: ChannelId) -> String {
        self.serial += 1;
        let stop = InboundStop {
            id: InteractionId(self.serial),
            thread: ThreadId(channel.0),
            by: person(by, &[]),
        };
        self.desk.stop(stop).await.text
    }

    fn request(&self, message: MessageId) -> Option<TurnRecord> {
        self.store().turn(TurnId(message.0)).unwrap()
    }

    /// Returns what was said in a place, once this many things were.
    async fn notices(&self, channel: ChannelId, count: usize) -> Vec<String> {
        let there = |said: &[Said]| {
            let said = said.iter().filter_map(|said| match said {
                Said::Post {
                    channel: at, post, ..
                } if *at == channel => Some(post.text.clone()),
                _ => None,
            });
            said.collect::<Vec<String>>()
        };
        there(&self.surface.until(|said| there(said).len() >= count).await)
    }

    /// Lets everything that is still to be said be said.
    async fn settles(&self) {
        while !self.store().pending().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_chooses_second_in_a_thread_does_not_undo_the_chat_of_the_first() {
    let mut lobby = Lobby::open();
    let first = lobby.asks(ADA, THREAD.channel(), "one").await;
    let second = lobby.asks(BEN, THREAD.channel(), "two").await;
    let third = lobby.asks(ADA, THREAD.channel(), "three").await;
    assert_eq!(
        lobby.chooses(ADA, first, "site").await,
        notice::asked(THREAD)
    );
    let begun = lobby.store().chat(THREAD).unwrap().unwrap();
    assert_eq!(
        (begun.owner, &begun.projects[..]),
        (ADA, &[slug("site")][..])
    );
    let other = lobby.chooses(BEN, second, "notes").await;
    assert_eq!(
        other,
        "This thread works in `site`. Ask in a channel for a thread in another project."
    );
    assert_eq!(lobby.request(second), None);
    // What was refused still waits for a choice that can be.
    assert_eq!(
        lobby.chooses(BEN, second, "site").await,
        notice::asked(THREAD)
    );
    assert_eq!(
        lobby.chooses(ADA, third, "site").await,
        notice::asked(THREAD)
    );
    assert_eq!(lobby.store().chat(THREAD).unwrap(), Some(begun));
    assert_eq!(lobby.store().open_turns(THREAD).unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_choice_that_is_refused_is_not_the_last_one() {
    let mut lobby = Lobby::open();
    lobby.store().pause(Some("new disk")).unwrap();
    let asked = lobby.message(ADA, HALL, "plot it");
    let request = request_of(asked.clone());
    let turn = TurnId(asked.id.0);
    let choices = [slug("site"), slug("notes")];
    which_project::ask(&lobby.house, request, asked.place, turn, &choices).unwrap();
    let told = lobby.chooses(ADA, asked.id, "site").await;
    assert!(told.contains("paused"), "{told}");
    lobby.store().pause(None).unwrap();
    let told = lobby.chooses(ADA, asked.id, "site").await;
    assert_eq!(told, notice::asked(ThreadId(asked.id.0)));
    assert_eq!(
        lobby.chooses(ADA, asked.id, "notes").await,
        crate::present::office_chats::not_waiting()
    );
}

#[tokio::test(start_paused = true)]
async fn while_money_is_only_held_a_follow_up_is_taken_and_waits() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::All);
    let permit = permit(ADA, "site", 1_000_000, None, NOW);
    let held = lobby.store().hold(TurnId(1), &permit, NOW).unwrap();
    assert_eq!(held, Ok(usd(1.0)));
    let follow_up = lobby.says(ADA, THREAD.channel(), "and in blue").await;
    let mut record = lobby.request(follow_up).unwrap();
    assert_eq!(record.stage, Stage::Waiting);
    // If it starts while everything is held, that is what it hears; afterwards it has what is left.
    let chat = lobby.store().chat(THREAD).unwrap().unwrap();
    let refused = gate::hold(&lobby.house, &chat, &mut record).unwrap();
    assert_eq!(refused, Err(Refusal::Held { project: None }));
    lobby
        .store()
        .settle(TurnId(1), usd(0.25), false, NOW)
        .unwrap();
    let holds = gate::hold(&lobby.house, &chat, &mut record).unwrap();
    assert_eq!(holds, Ok(usd(0.75)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_edited_down_to_nothing_is_taken_back() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::All);
    let words = lobby.says(ADA, THREAD.channel(), "plot it").await;
    let mut with_file = lobby.message(ADA, THREAD.channel(), "plot this");
    with_file.attachments.push(Attachment {
        id: AttachmentId(5),
        message: Some(with_file.id),
        name: "data.csv".to_owned(),
        size: 3,
        url: String::new(),
    });
    let with_file = lobby.hears(with_file).await;
    let undecided = lobby.asks(ADA, HALL, "plot it").await;
    for (message, channel) in [
        (words, THREAD.channel()),
        (with_file, THREAD.channel()),
        (undecided, HALL),
    ] {
        lobby.edits(message, channel, " \u{200b}").await;
    }
    while lobby.request(words).unwrap().stage != Stage::Done {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(lobby.request(words).unwrap().started_at, None);
    assert_eq!(lobby.request(with_file).unwrap().stage, Stage::Waiting);
    assert_eq!(
        lobby.chooses(ADA, undecided, "site").await,
        crate::present::office_chats::not_waiting()
    );
    // Nor is there anything to work on in what nobody can see.
    let unseen = lobby.says(ADA, THREAD.channel(), "\u{200b}").await;
    assert_eq!(lobby.request(unseen), None);
}

#[tokio::test(start_paused = true)]
async fn a_remark_is_quoted_as_it_stands_and_of_those_who_may_still_speak() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::Mentions);
    let channel = THREAD.channel();
    let secret = lobby.says(BEN, channel, "my password is hunter2").await;
    let colour = lobby.says(BEN, channel, "use red").await;
    lobby.deletes(secret, channel).await;
    lobby.edits(colour, channel, "use blue").await;
    let first = lobby.asks(ADA, channel, "go").await;
    let quoted = |record: TurnRecord| -> Vec<String> {
        let quotes = record.request.context.into_iter();
        quotes.map(|quote| quote.text).collect()
    };
    assert_eq!(quoted(lobby.request(first).unwrap()), ["use blue"]);
    // As long as the request waits.
    lobby.edits(colour, channel, "use green").await;
    assert_eq!(quoted(lobby.request(first).unwrap()), ["use green"]);
    lobby.deletes(colour, channel).await;
    assert!(quoted(lobby.request(first).unwrap()).is_empty());

    lobby.says(BEN, channel, "and dots").await;
    lobby
        .store()
        .revoke(Subject::Member(BEN), &slug("site"))
        .unwrap();
    let second = lobby.asks(ADA, channel, "go on").await;
    assert!(quoted(lobby.request(second).unwrap()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn of_an_absence_everybody_is_told_once_who_could_have_asked() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::All);
    let channel = THREAD.channel();
    for absence in 1..=2 {
        let mut missed = Vec::new();
        for text in ["one", "two", "three"] {
            for member in [CLEO, ADA, BEN] {
                missed.push(lobby.message(member, channel, text));
            }
        }
        tokio::time::advance(Duration::from_secs(2 * 60 * 60)).await;
        for message in missed {
            lobby.hears(message).await;
        }
        lobby.settles().await;
        let told = lobby.notices(channel, 2 * absence).await;
        assert_eq!(told.len(), 2 * absence, "{told:#?}");
        assert!(told.iter().all(|text| text.starts_with("I was away")));
    }
    assert!(lobby.store().unfinished().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removed_project_is_told_of_once_to_each() {
    let mut lobby = Lobby::open();
    let gone = Chat {
        projects: vec![slug("gone")],
        listen: Listen::All,
        ..chat(THREAD)
    };
    lobby.store().put_chat(&gone).unwrap();
    for text in ["one", "two", "three"] {
        lobby.says(ADA, THREAD.channel(), text).await;
    }
    lobby.settles().await;
    let told = lobby.notices(THREAD.channel(), 1).await;
    assert_eq!(
        told,
        ["There is no project `gone` that you can use. You can use `site`, `notes`."]
    );
}

#[tokio::test(start_paused = true)]
async fn stop_finds_what_the_person_may_stop() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::All);
    lobby.rests();
    let running = TurnRecord {
        stage: Stage::Started,
        ..turn(1, THREAD, Stage::Waiting)
    };
    lobby.store().put_turn(&running).unwrap();
    let waiting = lobby.says(BEN, THREAD.channel(), "two").await;
    assert_eq!(
        lobby.stops(CLEO, THREAD.channel()).await,
        notice::refusal(&Refusal::NotYourTurn)
    );
    assert_eq!(
        lobby.stops(BEN, THREAD.channel()).await,
        notice::taken_back()
    );
    assert_eq!(lobby.request(waiting).unwrap().stage, Stage::Done);
    assert_eq!(lobby.stops(ADA, THREAD.channel()).await, notice::stopping());
}

#[tokio::test(start_paused = true)]
async fn stop_finds_a_chat_without_a_thread_in_its_channel() {
    let mut lobby = Lobby::open();
    lobby.rests();
    assert_eq!(lobby.stops(ADA, HALL).await, notice::nothing_is_running());
    let in_place = Chat {
        place: HALL,
        ..chat(THREAD)
    };
    lobby.store().put_chat(&in_place).unwrap();
    lobby
        .store()
        .put_turn(&turn(1, THREAD, Stage::Started))
        .unwrap();
    assert_eq!(lobby.stops(ADA, HALL).await, notice::stopping());
}

#[tokio::test(start_paused = true)]
async fn who_tries_anothers_request_again_quotes_it() {
    let mut lobby = Lobby::open();
    lobby.chat(Listen::All);
    let text = format!("plot {}", "x".repeat(3000));
    let mut failed = TurnRecord {
        retry: true,
        ..turn(1, THREAD, Stage::Done)
    };
    failed.request.text = text.clone();
    lobby.store().put_turn(&failed).unwrap();
    let id = Button::Retry(TurnId(1)).id();
    let reply = lobby.presses(BEN, id.clone(), &[]).await;
    assert_eq!(reply.text, notice::trying_again());
    let again = lobby.store().open_turns(THREAD).unwrap().remove(0);
    assert_eq!(again.request.author.member, BEN);
    assert_eq!(
        again.request.text,
        "Do once more what `member 2` asked: it is quoted or attached above."
    );
    let quotes = &again.request.quotes;
    assert!(
        quotes
            .iter()
            .all(|quote| quote.author.as_deref() == Some("member 2"))
    );
    let quoted: String = quotes.iter().map(|quote| quote.text.as_str()).collect();
    assert_eq!(quoted, text);

    // Whoever asked it keeps his own words.
    lobby.store().put_turn(&failed).unwrap();
    lobby.presses(ADA, id, &[]).await;
    let own = lobby.store().open_turns(THREAD).unwrap().remove(1);
    assert_eq!((own.request.text, own.request.quotes), (text, Vec::new()));
}
