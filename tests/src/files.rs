/// A script that keeps the files that a page saves: their text in `window.files`, their blobs in
/// `window.blobs_by_name`.
pub const CATCH_FILES: &str = "
    window.files = {};
    window.blobs_by_name = {};
    const click = HTMLAnchorElement.prototype.click;
    const make = URL.createObjectURL;
    const blobs = new Map();
    URL.createObjectURL = (blob) => { const url = make.call(URL, blob); blobs.set(url, blob); return url; };
    HTMLAnchorElement.prototype.click = function () {
        const blob = this.download && blobs.get(this.href);
        if (!blob) return click.call(this);
        window.blobs_by_name[this.download] = blob;
        blob.text().then((text) => { window.files[this.download] = text; });
    };";
