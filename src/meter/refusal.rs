//! What the meter itself answers, in the provider's form.
//!
//! The CLI does not try again after 400 and 403, and shows the message of a 400 as it stands (measured, 2.1.197); it
//! tries again after 429 and 5xx.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};

use crate::domain::ledger::LIMIT_REACHED;

use super::passage::Body;

/// Why the meter does not forward a request, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing of that name is served.
    NotServed,
    /// The token is not that of a running turn.
    NotYours,
    /// The model is not one that this turn may use, or has no price.
    Model(String),
    /// The request is not acceptable; why.
    Request(String),
    /// The hold is used up.
    UsedUp,
    /// The turn ended, or its hold was used up, while the request was on its way.
    Over,
    /// The body is too large.
    TooLarge,
    /// The body did not come in time.
    Slow,
    /// Too many requests of this turn at once.
    Crowded,
    /// What the request may cost could not be stored.
    NotStored,
    /// The provider cannot be reached.
    Unreachable,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::NotServed => StatusCode::NOT_FOUND,
            Refusal::NotYours => StatusCode::FORBIDDEN,
            Refusal::Model(_) | Refusal::Request(_) | Refusal::UsedUp | Refusal::Over => {
                StatusCode::BAD_REQUEST
            }
            Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Slow => StatusCode::REQUEST_TIMEOUT,
            Refusal::Crowded => StatusCode::TOO_MANY_REQUESTS,
            Refusal::NotStored => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Unreachable => StatusCode::BAD_GATEWAY,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Refusal::NotServed => "not_found_error",
            Refusal::NotYours => "permission_error",
            Refusal::Model(_) | Refusal::Request(_) | Refusal::UsedUp | Refusal::Over => {
                "invalid_request_error"
            }
            Refusal::TooLarge => "request_too_large",
            Refusal::Slow => "timeout_error",
            Refusal::Crowded => "rate_limit_error",
            Refusal::NotStored | Refusal::Unreachable => "api_error",
        }
    }

    fn message(&self) -> String {
        match self {
            Refusal::NotServed => {
                "the meter serves only /v1/messages, /v1/messages/count_tokens and /v1/models"
                    .into()
            }
            Refusal::NotYours => "this token belongs to no running turn".into(),
            Refusal::Model(model) => format!("the model {model:?} is not available in this turn"),
            Refusal::Request(why) => why.clone(),
            Refusal::UsedUp => LIMIT_REACHED.into(),
            Refusal::Over => "this turn has ended".into(),
            Refusal::TooLarge => "the request is larger than 32 MiB".into(),
            Refusal::Slow => "the request did not arrive in time".into(),
            Refusal::Crowded => {
                "too many requests of this turn at once, try again in a moment".into()
            }
            Refusal::NotStored => "the cost of this request cannot be recorded now".into(),
            Refusal::Unreachable => "the provider cannot be reached".into(),
        }
    }

    /// Returns the answer that says so.
    pub(super) fn answer(&self) -> Response<Body> {
        let text = serde_json::json!({
            "type": "error",
            "error": {"type": self.kind(), "message": self.message()},
        });
        let body = Full::new(Bytes::from(text.to_string())).map_err(|never| match never {});
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if matches!(self, Refusal::Crowded | Refusal::NotStored) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
