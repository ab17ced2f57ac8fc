//! Attachments by plain links: `/attachments/{channel}/{id}/{name}`.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse as _;

use super::clock::Id;
use super::server::HungUp;
use super::shared::Core;
use super::world::content_type;

/// Gives a file out, or misbehaves as a rule for `GET /attachments/*/*/*` asks.
pub(crate) async fn serve(core: &Core, path: &str) -> Result<Response<Body>, HungUp> {
    let steps: Vec<&str> = std::iter::once("attachments").chain(path.split('/')).collect();
    let effect = core.with(|state| state.faults.on_request("GET", &steps));
    let Some(effect) = effect else {
        return Ok(answer(core, path));
    };
    tokio::time::sleep(effect.delay).await;
    if effect.hang_up || effect.lose_reply {
        return Err(HungUp);
    }
    Ok(match effect.answer {
        Some(answer) => StatusCode::from_u16(answer.status)
            .unwrap_or_default()
            .into_response(),
        None => answer(core, path),
    })
}

/// Answers a request for an attachment; the path is what follows `/attachments/`.
fn answer(core: &Core, path: &str) -> Response<Body> {
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
