//! The ways in which Discord refuses a request: HTTP status, code and text.

use serde_json::{Value, json};

/// One of Discord's fixed refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    status: u16,
    code: u32,
    message: &'static str,
}

/// Names each refusal with its status, its code and Discord's text.
macro_rules! codes {
    ($($name:ident = $status:literal $code:literal $message:literal;)*) => {
        $(pub(crate) const $name: Code = Code { status: $status, code: $code, message: $message };)*
    };
}

codes! {
    UNAUTHORIZED = 401 0 "401: Unauthorized";
    NOT_FOUND = 404 0 "404: Not Found";
    METHOD_NOT_ALLOWED = 405 0 "405: Method Not Allowed";
    UNKNOWN_CHANNEL = 404 10003 "Unknown Channel";
    UNKNOWN_GUILD = 404 10004 "Unknown Guild";
    UNKNOWN_MEMBER = 404 10007 "Unknown Member";
    UNKNOWN_MESSAGE = 404 10008 "Unknown Message";
    UNKNOWN_USER = 404 10013 "Unknown User";
    UNKNOWN_EMOJI = 400 10014 "Unknown Emoji";
    UNKNOWN_WEBHOOK = 404 10015 "Unknown Webhook";
    UNKNOWN_INTERACTION = 404 10062 "Unknown interaction";
    UNKNOWN_COMMAND = 404 10063 "Unknown application command";
    TOO_MANY_REACTIONS = 400 30010 "Maximum number of reactions reached (20)";
    TOO_MANY_FILES = 400 30015 "Maximum number of attachments in a message reached (10)";
    TOO_LARGE = 413 40005 "Request entity too large";
    WRONG_TYPE_FOR_FORUM = 400 40058 "Cannot message this thread until after the post author has sent an initial message.";
    ALREADY_ACKNOWLEDGED = 400 40060 "Interaction has already been acknowledged.";
    MISSING_ACCESS = 403 50001 "Missing Access";
    FOREIGN_MESSAGE = 403 50005 "Cannot edit a message authored by another user";
    EMPTY_MESSAGE = 400 50006 "Cannot send an empty message";
    NOT_A_TEXT_CHANNEL = 400 50008 "Cannot send messages in a non-text channel";
    MISSING_PERMISSIONS = 403 50013 "Missing Permissions";
    BULK_DELETE_COUNT = 400 50016 "Provided too few or too many messages to delete. Must provide at least 2 and fewer than 100 messages to delete.";
    SYSTEM_MESSAGE = 403 50021 "Cannot execute action on a system message";
    WRONG_CHANNEL_TYPE = 400 50024 "Cannot execute action on this channel type";
    INVALID_TOKEN = 401 50027 "Invalid Webhook Token";
    BULK_DELETE_AGE = 400 50034 "A message provided was too old to bulk delete";
    ARCHIVED = 400 50083 "Thread is archived";
    INVALID_JSON = 400 50109 "The request body contains invalid JSON.";
    REPLY_WITHOUT_HISTORY = 400 160002 "Cannot reply without permission to read message history";
    THREAD_EXISTS = 400 160004 "A thread has already been created for this message";
    THREAD_LOCKED = 400 160005 "Thread is locked";
}

/// A refusal as it goes out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) code: u32,
    pub(crate) message: String,
    pub(crate) errors: Option<Value>,
    /// Seconds to wait, for a refusal with status 429.
    pub(crate) retry_after: Option<f64>,
}

impl From<Code> for Refused {
    fn from(code: Code) -> Self {
        let Code {
            status,
            code,
            message,
        } = code;
        Refused {
            status,
            code,
            message: message.to_owned(),
            errors: None,
            retry_after: None,
        }
    }
}

impl Refused {
    /// Returns the refusal of a field: Discord's code 50035 with the field's path.
    pub(crate) fn field(path: &[&str], code: &str, message: impl Into<String>) -> Self {
        let leaf = json!({ "_errors": [{ "code": code, "message": message.into() }] });
        let errors = path
            .iter()
            .rev()
            .fold(leaf, |inner, step| json!({ (*step).to_owned(): inner }));
        let message = "Invalid Form Body".to_owned();
        Refused {
            status: 400,
            code: 50035,
            message,
            errors: Some(errors),
            retry_after: None,
        }
    }

    /// Returns Discord's refusal of a text whose length is out of bounds.
    pub(crate) fn length(path: &[&str], least: usize, most: usize) -> Self {
        let message = format!("Must be between {least} and {most} in length.");
        Refused::field(path, "BASE_TYPE_BAD_LENGTH", message)
    }

    /// Returns the refusal's JSON form.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "message": self.message, "code": self.code });
        if let Some(errors) = &self.errors {
            body["errors"] = errors.clone();
        }
        if let Some(retry_after) = self.retry_after {
            body["retry_after"] = json!(retry_after);
            body["global"] = json!(false);
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_by_its_path() {
        let refused = Refused::field(
            &["embeds", "0", "title"],
            "BASE_TYPE_REQUIRED",
            "This field is required",
        );
        assert_eq!(
            refused.body()["errors"]["embeds"]["0"]["title"]["_errors"][0]["code"],
            "BASE_TYPE_REQUIRED"
        );
    }
}
