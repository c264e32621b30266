pub(crate) async fn measure() {}
