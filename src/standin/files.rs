//! Attachments by plain links: `/attachments/{channel}/{id}/{name}`.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;

use super::clock::Id;
use super::shared::Core;
use super::world::content_type;

/// Answers a request for an attachment; the path is what follows `/attachments/`.
pub(crate) fn answer(core: &Core, path: &str) -> Response<Body> {
    let mut steps = path.split('/');
    let (channel, id, name) = (steps.next(), steps.next(), steps.next().unwrap_or_default());
    let id = channel.and(id).and_then(|id| id.parse::<Id>().ok());
    let Some(bytes) = id.and_then(|id| core.look(|state| state.world.files.get(&id).cloned()))
    else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let content_type = content_type(name).unwrap_or("application/octet-stream");
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // What people upload must not become a page of this address.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    if !content_type.starts_with("image/") {
        headers.insert(
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        );
    }
    response
}
