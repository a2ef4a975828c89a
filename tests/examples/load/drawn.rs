//! When the browser has drawn something.

/// A script that runs `then` at the end of the first frame in which `condition` is true. Both are JavaScript. `then` may
/// use `found`, the time at which the condition became true. An observer looks after each change of the page, so neither
/// polling nor a wait for a further frame is in the figures.
pub(crate) fn once_drawn(condition: &str, then: &str) -> String {
    format!(
        "{{
            let found = null, over = false;
            const look = () => {{
                if (!({condition})) return;
                found ??= performance.now();
                added.disconnect();
            }};
            const added = new MutationObserver(look);
            added.observe(document, {{ childList: true, subtree: true }});
            // A message that is sent at the beginning of a frame arrives after the frame.
            const frame = new MessageChannel();
            frame.port1.onmessage = () => {{
                if (found === null || over) return;
                over = true;
                {then}
            }};
            const begin = () => {{
                if (over) return;
                frame.port2.postMessage(null);
                requestAnimationFrame(begin);
            }};
            requestAnimationFrame(begin);
            look();
        }}"
    )
}
