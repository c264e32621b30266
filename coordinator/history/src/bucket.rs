//! A shelf in an object store, or in a part of one.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path as Place;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;

use crate::shelf::{Listed, STORE_TIMEOUT, Shelf, ShelfError};

#[derive(Debug)]
pub(crate) struct Bucket {
    objects: Arc<dyn ObjectStore>,
    prefix: Place,
    runtime: Runtime,
}

impl Bucket {
    pub(crate) fn new(objects: Arc<dyn ObjectStore>, prefix: Place) -> Result<Self, ShelfError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ShelfError::Start)?;
        Ok(Self {
            objects,
            prefix,
            runtime,
        })
    }

    fn place(&self, name: &str) -> Place {
        self.prefix
            .parts()
            .chain(Place::from(name).parts())
            .collect()
    }

    fn wait<T>(
        &self,
        what: &'static str,
        name: &str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ShelfError> {
        let file = || name.to_owned();
        let patient = async { tokio::time::timeout(STORE_TIMEOUT, work).await };
        match self.runtime.block_on(patient) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(problem)) => Err(ShelfError::Failed {
                what,
                file: file(),
                problem,
            }),
            Err(_) => Err(ShelfError::Silent { what, file: file() }),
        }
    }
}

impl Shelf for Bucket {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        let place = self.place(name);
        let put = self.objects.put(&place, content.into());
        self.wait("write", name, put).map(drop)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        let place = self.place(name);
        let get = async { self.objects.get(&place).await?.bytes().await };
        if_there(self.wait("read", name, get).map(Some))
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        let place = self.place(folder.unwrap_or_default());
        let list = self.objects.list(Some(&place));
        let listed = list.try_filter_map(|object| async move { Ok(self.listed(&object)) });
        let name = folder.unwrap_or("the files");
        self.wait("list", name, listed.try_collect())
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let place = self.place(name);
        if_there(self.wait("remove", name, self.objects.delete(&place)))
    }
}

/// Treats a missing object as empty.
fn if_there<T: Default>(outcome: Result<T, ShelfError>) -> Result<T, ShelfError> {
    match outcome {
        Err(ShelfError::Failed {
            problem: object_store::Error::NotFound { .. },
            ..
        }) => Ok(T::default()),
        other => other,
    }
}

impl Bucket {
    fn listed(&self, object: &ObjectMeta) -> Option<Listed> {
        let parts = object.location.prefix_match(&self.prefix)?;
        let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
        Some(Listed {
            name: parts.join("/"),
            bytes: object.size,
        })
    }
}
