//! Keys and tokens are taken out of every text before it is cut, escaped or sent.
//!
//! It looks for what it was told of and for the common forms of keys; it is the last net, not the first.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// What stands in a secret's place.
pub const HIDDEN: &str = "[hidden]";
/// Shorter texts would be found in ordinary words.
const SHORTEST: usize = 8;

/// The forms of keys that providers document, each bounded so that ordinary text does not match.
const FORMS: &[&str] = &[
    // Anthropic.
    r"sk-ant-[A-Za-z0-9_\-]{8,}",
    // Other providers' secret keys.
    r"\bsk-(?:proj-)?[A-Za-z0-9_\-]{32,}",
    // Discord bot tokens: the bot's id, a time and a signature in base64url.
    r"\b[MNO][A-Za-z0-9_\-]{22,30}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,}",
    // Discord webhook addresses.
    r"/api(?:/v\d+)?/webhooks/\d+/[A-Za-z0-9_\-]{20,}",
    // GitHub and GitLab.
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{30,}",
    r"\bglpat-[A-Za-z0-9_\-]{20,}",
    // AWS key ids, and secrets where they are named.
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"(?i)aws_secret_access_key\s*[=:]\s*\S{30,}",
    // Slack and Google.
    r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}",
    r"\bAIza[A-Za-z0-9_\-]{35}",
    // Private keys, also when their end is missing.
    r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\z)",
];

static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&FORMS.join("|")).ok());

/// Returns `text` with the `known` secrets and everything that looks like a key replaced by `[hidden]`.
///
/// It wants the whole text: a secret that was cut in two is no longer found.
pub fn scrub(text: &str, known: &[String]) -> String {
    let mut scrubbed = Cow::Borrowed(text);
    for secret in known.iter().filter(|secret| secret.len() >= SHORTEST) {
        if scrubbed.contains(secret.as_str()) {
            scrubbed = Cow::Owned(scrubbed.replace(secret.as_str(), HIDDEN));
        }
    }
    match &*KEYS {
        Some(keys) => keys.replace_all(&scrubbed, HIDDEN).into_owned(),
        // The forms are fixed and a test compiles them.
        None => scrubbed.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn common_keys_are_hidden() {
        let bot = format!("{}.{}.{}", "M".repeat(24), "GaBcDe", "x".repeat(38));
        let cases = [
            "sk-ant-api03-abcdefghijklmnop_qrs-tuv".to_owned(),
            format!("ghp_{}", "a1B2".repeat(9)),
            format!("github_pat_{}", "a1_B".repeat(10)),
            "AKIAIOSFODNN7EXAMPLE".to_owned(),
            bot,
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----".to_owned(),
            "-----BEGIN PRIVATE KEY-----\nMIIE and no end".to_owned(),
        ];
        for secret in cases {
            let text = scrub(&format!("it is `{secret}`"), &[]);
            let rest = text.trim_end_matches('`');
            assert_eq!(rest, "it is `[hidden]", "{secret}");
        }
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        let text = "Use sk-learn, run `git push`, see MDN.docs.example and ghp_short; a risk-free ask-for-more-than-anybody-gave.";
        assert_eq!(scrub(text, &["short".into(), String::new()]), text);
    }

    #[test]
    fn known_secrets_are_hidden_wherever_they_stand() {
        let known = ["correct horse".to_owned()];
        assert_eq!(
            scrub("xcorrect horsex, correct horse", &known),
            "x[hidden]x, [hidden]"
        );
    }

    proptest! {
        #[test]
        fn a_known_secret_never_survives(before in ".{0,40}", secret in "[a-zA-Z0-9_*~`|-]{8,40}", after in ".{0,40}") {
            let text = format!("{before}{secret}{after}");
            prop_assume!(!HIDDEN.contains(&secret));
            let known = [secret.clone()];
            prop_assert!(!scrub(&text, &known).contains(&secret));
        }
    }
}
