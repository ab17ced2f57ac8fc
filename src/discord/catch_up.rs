//! Reads what was written while nobody listened. Only places where something new stands are read; what was heard after
//! all, and what counts as a request, is for the driver to say.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::domain::ids::MessageId;
use crate::domain::venue::Place;
use crate::driver::inbound::InboundMessage;

use super::inbound;
use super::listener::ask_member;
use super::outbound::Outbound;
use super::rest::{Call, Major, RestError};
use super::wire;

/// Messages of one page (resources/message, "Get Channel Messages").
const PAGE: usize = 100;

/// The longest wait before Discord is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Pages of one place; what lies beyond is given up, and said so in the log.
const PAGES: usize = 5;

impl Outbound {
    /// Reads what people wrote after `after`, oldest first, in all channels and active threads of the configured
    /// servers. To be called after [`NewSession`](crate::driver::inbound::Inbound::NewSession), when it is known where
    /// something new stands. A place that cannot be read is left out; messages that were heard come as well.
    pub(super) async fn read_missed(&self, after: MessageId) -> Vec<InboundMessage> {
        let mut members = HashMap::new();
        let mut missed = Vec::new();
        for place in self.places.with_news(after) {
            match at_last(|| self.history(place, after)).await {
                Ok(messages) => {
                    for raw in messages {
                        missed.extend(self.revive(raw, place, &mut members).await);
                    }
                }
                Err(error) => tracing::warn!(%error, "a channel's history could not be read"),
            }
        }
        missed.sort_by_key(|message| message.id);
        missed
    }

    /// Reads one place, page by page.
    async fn history(&self, place: Place, after: MessageId) -> Result<Vec<Value>, RestError> {
        let mut messages = Vec::new();
        let mut newest = after;
        for _ in 0..PAGES {
            let page = self.page(place, newest).await?;
            let last = page.iter().filter_map(|raw| wire::id(&raw["id"])).max();
            let is_last = page.len() < PAGE;
            messages.extend(page);
            match last {
                Some(last) if !is_last => newest = MessageId(last),
                _ => {
                    if messages.is_empty() {
                        // Without the permission Discord answers with an empty list.
                        let channel = place.channel.0;
                        tracing::warn!(channel, "is the permission Read Message History missing?");
                    }
                    return Ok(messages);
                }
            }
        }
        let channel = place.channel.0;
        tracing::warn!(channel, "more was missed than is read");
        Ok(messages)
    }

    async fn page(&self, place: Place, after: MessageId) -> Result<Vec<Value>, RestError> {
        let path = format!("channels/{}/messages", place.channel);
        let call = Call::new(
            "read history",
            Method::GET,
            path,
            Major::Channel(place.channel),
        );
        let call = call.query("after", after).query("limit", PAGE);
        self.rest.ask(call).await
    }

    /// Turns a message of the history, which tells nothing about its author's roles, into ours.
    async fn revive(
        &self,
        mut raw: Value,
        place: Place,
        members: &mut HashMap<u64, Value>,
    ) -> Option<InboundMessage> {
        let me = self.places.myself(place.guild);
        let author = wire::id(&raw["author"]["id"])?;
        if !inbound::is_from_a_person(&raw, me) {
            return None;
        }
        let member = match members.entry(author) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let member = at_last(|| ask_member(&self.rest, place.guild, author)).await;
                unknown.insert(member.unwrap_or_default())
            }
        };
        raw["member"] = member.clone();
        inbound::message(&raw, me, place)
    }
}

/// Asks for as long as Discord is away: what is left out here is never heard, and who has no roles here is refused.
pub(super) async fn at_last<T, F>(mut ask: impl FnMut() -> F) -> Result<T, RestError>
where
    F: Future<Output = Result<T, RestError>>,
{
    let mut wait = Duration::from_secs(1);
    loop {
        match ask().await {
            Err(RestError::Away { call, why }) => {
                tracing::warn!(call, %why, "what was missed waits for discord");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            other => return other,
        }
    }
}
