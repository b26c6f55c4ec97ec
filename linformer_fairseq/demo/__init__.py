"""The web page of `linformer demo`: `page/` is shown by a browser, `answers` computes, `server` connects the two."""
