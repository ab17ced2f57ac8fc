//! What the provider says an answer used.

use serde::Deserialize;

/// Tokens and extras of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens outside the cache.
    pub input: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Input tokens written to the cache, for whichever time.
    pub cache_write: u64,
    /// Those of them that were written for an hour.
    pub cache_write_1h: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Web searches.
    pub web_searches: u64,
    /// Whether something was counted whose price is not known.
    pub unpriced: bool,
}

impl Usage {
    /// Takes over newer numbers: each one that is there and not zero replaces the older one, as the provider's final
    /// numbers are cumulative and may leave out what it said at the start.
    pub(super) fn update(&mut self, wire: &WireUsage) {
        let newer = |old: &mut u64, new: Option<u64>| {
            if let Some(new) = new.filter(|new| *new > 0) {
                *old = new;
            }
        };
        newer(&mut self.input, wire.input_tokens);
        newer(&mut self.output, wire.output_tokens);
        newer(&mut self.cache_write, wire.cache_creation_input_tokens);
        newer(&mut self.cache_read, wire.cache_read_input_tokens);
        if let Some(split) = &wire.cache_creation {
            let hour = split.ephemeral_1h_input_tokens;
            let both = hour
                .unwrap_or(0)
                .saturating_add(split.ephemeral_5m_input_tokens.unwrap_or(0));
            newer(&mut self.cache_write_1h, hour);
            self.cache_write = self.cache_write.max(both);
        }
        for (extra, count) in wire.server_tool_use.iter().flatten() {
            match (extra.as_str(), count.as_u64()) {
                ("web_search_requests", Some(count)) => newer(&mut self.web_searches, Some(count)),
                // Fetching costs nothing beyond its tokens.
                ("web_fetch_requests", _) | (_, Some(0)) => {}
                _ => self.unpriced = true,
            }
        }
    }
}

/// `usage`, as it stands in `message_start`, `message_delta` and whole answers.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation: Option<WireCacheCreation>,
    server_tool_use: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Debug, Deserialize)]
struct WireCacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Usage {
        let mut usage = Usage::default();
        for text in texts {
            usage.update(&serde_json::from_str(text).unwrap());
        }
        usage
    }

    #[test]
    fn final_numbers_replace_earlier_ones_and_missing_or_empty_ones_do_not() {
        let usage = read(&[
            r#"{"input_tokens":10,"cache_read_input_tokens":7,"output_tokens":1}"#,
            r#"{"input_tokens":0,"cache_read_input_tokens":null,"output_tokens":50}"#,
        ]);
        assert_eq!((usage.input, usage.cache_read, usage.output), (10, 7, 50));
        assert_eq!(
            read(&[r#"{"input_tokens":10}"#, r#"{"input_tokens":30}"#]).input,
            30
        );
    }

    #[test]
    fn cache_writes_are_split_where_the_provider_tells_and_never_lost() {
        let split =
            r#"{"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}"#;
        let usage = read(&[split]);
        assert_eq!((usage.cache_write, usage.cache_write_1h), (7, 4));
        let usage = read(&[r#"{"cache_creation_input_tokens":9,"cache_creation":null}"#]);
        assert_eq!((usage.cache_write, usage.cache_write_1h), (9, 0));
    }

    #[test]
    fn an_extra_without_a_known_price_is_noticed() {
        let usage = read(&[
            r#"{"server_tool_use":{"web_search_requests":2,"web_fetch_requests":9,"naps":0}}"#,
        ]);
        assert_eq!((usage.web_searches, usage.unpriced), (2, false));
        assert!(read(&[r#"{"server_tool_use":{"naps":1}}"#]).unpriced);
    }
}
