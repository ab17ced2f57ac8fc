//! Fetches the files that people attach. An address in a message is somebody's claim: only Discord's own file servers
//! and the configured address are asked, no redirect is followed, and no more is read than may be.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;

use crate::domain::ids::{ChannelId, MessageId};
use crate::domain::request::Attachment;
use crate::driver::ports::SurfaceError;

use super::faults::{code, meaning};
use super::places::Places;
use super::rest::{Call, Major, Rest, RestError};
use super::wire;

/// Discord's file servers (reference, "CDN").
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

/// The longest that one file may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Why a file did not come.
enum Miss {
    /// The address is not valid any more.
    Expired,
    /// Anything else.
    Failed(SurfaceError),
}

/// Fetches a file of at most `most` bytes. If its address has expired, its message is read again for a new one.
pub(super) async fn fetch(
    rest: &Rest,
    places: &Places,
    channel: ChannelId,
    attachment: &Attachment,
    most: u64,
) -> Result<Bytes, SurfaceError> {
    match get(rest, &attachment.url, most).await {
        Ok(bytes) => return Ok(bytes),
        Err(Miss::Failed(error)) => return Err(error),
        Err(Miss::Expired) => {}
    }
    let message = attachment.message.ok_or_else(expired)?;
    let raw = read_message(rest, places, channel, message).await?;
    let url = address_in(&raw, attachment.id.0).ok_or_else(expired)?;
    get(rest, url, most).await.map_err(|miss| match miss {
        Miss::Expired => expired(),
        Miss::Failed(error) => error,
    })
}

fn expired() -> SurfaceError {
    SurfaceError::Refused("the file is not there any more".to_owned())
}

async fn get(rest: &Rest, url: &str, most: u64) -> Result<Bytes, Miss> {
    let url = Url::parse(url)
        .ok()
        .filter(|url| is_allowed(url, rest.base()))
        .ok_or_else(|| {
            let why = "the file does not lie with discord";
            Miss::Failed(SurfaceError::Refused(why.to_owned()))
        })?;
    let response = rest.plain().get(url).timeout(LIMIT).send().await;
    let mut response = response.map_err(away)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::GONE => {
            return Err(Miss::Expired);
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            let why = format!("the file server answers {status}");
            return Err(Miss::Failed(SurfaceError::Away(why)));
        }
        status => {
            let why = format!("the file server answers {status}");
            return Err(Miss::Failed(SurfaceError::Refused(why)));
        }
    }
    let mut bytes = BytesMut::new();
    if response
        .content_length()
        .is_some_and(|length| length > most)
    {
        return Err(Miss::Failed(SurfaceError::TooLarge));
    }
    while let Some(chunk) = response.chunk().await.map_err(away)? {
        if bytes.len() as u64 + chunk.len() as u64 > most {
            return Err(Miss::Failed(SurfaceError::TooLarge));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

fn away(error: reqwest::Error) -> Miss {
    // Without the address: its signature opens the file to anybody.
    Miss::Failed(SurfaceError::Away(error.without_url().to_string()))
}

/// Returns whether a file may be fetched from there.
fn is_allowed(url: &Url, base: &Url) -> bool {
    let own = url.origin() == base.origin();
    let discord = url.scheme() == "https"
        && url.port_or_known_default() == Some(443)
        && url
            .host_str()
            .is_some_and(|host| FILE_HOSTS.contains(&host));
    own || discord
}

/// Reads a message. The one that a thread hangs on stands in the channel above it.
async fn read_message(
    rest: &Rest,
    places: &Places,
    channel: ChannelId,
    message: MessageId,
) -> Result<Value, SurfaceError> {
    let read = |channel: ChannelId| {
        let path = format!("channels/{channel}/messages/{message}");
        let call = Call::new("read message", Method::GET, path, Major::Channel(channel));
        rest.ask::<Value>(call)
    };
    let parent = places.find(channel).and_then(|place| place.parent);
    let found: Result<Value, RestError> = match (read(channel).await, parent) {
        (Err(error), Some(parent)) if error.code() == code::UNKNOWN_MESSAGE => read(parent).await,
        (found, _) => found,
    };
    found.map_err(|error| meaning(error, "Read Message History"))
}

/// Returns the address of a file in a message or in what it forwards.
fn address_in(raw: &Value, attachment: u64) -> Option<&str> {
    let snapshots = wire::list(&raw["message_snapshots"]).iter();
    std::iter::once(raw)
        .chain(snapshots.map(|snapshot| &snapshot["message"]))
        .flat_map(|message| wire::list(&message["attachments"]))
        .find(|file| wire::id(&file["id"]) == Some(attachment))?["url"]
        .as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_from_discord_or_the_configured_address_alone() {
        let base = Url::parse("http://127.0.0.1:4000").unwrap();
        let table = [
            (
                "https://cdn.discordapp.com/attachments/1/2/a.png?ex=1",
                true,
            ),
            ("https://media.discordapp.net/attachments/1/2/a.png", true),
            ("http://127.0.0.1:4000/files/a.png", true),
            ("http://cdn.discordapp.com/a.png", false),
            ("https://cdn.discordapp.com:8443/a.png", false),
            ("https://cdn.discordapp.com.evil.example/a.png", false),
            ("https://cdn.discordapp.com@evil.example/a.png", false),
            ("http://127.0.0.1:4001/a.png", false),
            ("http://169.254.169.254/latest/meta-data", false),
            ("file:///etc/passwd", false),
        ];
        for (url, expected) in table {
            assert_eq!(
                is_allowed(&Url::parse(url).unwrap(), &base),
                expected,
                "{url}"
            );
        }
    }
}
