"""The task on words and tags of one's own."""

from collections.abc import Mapping, Sequence

from electra_tf.finetuning.tasks import conll, tag_schemes, tagging, text_tasks
from electra_tf.finetuning.tasks import labels as labels_lib
from electra_tf.finetuning.tasks.own_files import OwnFiles


class OwnTagging(tagging.TaggingTask):
    """A tag for each word.

    Tags stand for spans if all do, in one of the ways of `tag_schemes`, else
    for themselves. The labels are those of the training file.

    Args:
      name: See `Task`.
      paths: Split -> file, in CoNLL's layout if there is no `source`.
      source: Columns of words and of tags, separated by white space or lists.
      trained: See `task_of_model`; None to look at the training file.
    """

    def __init__(
        self,
        name: str,
        paths: dict[str, str],
        source: OwnFiles | None = None,
        trained: Mapping | None = None,
    ):
        super().__init__(name, paths, as_original=False)
        self.source = source
        self._read: dict[str, conll.File] = {}
        self.form = ""
        if trained is not None:
            self.form = trained["reading"]["form"]
            self.is_token_level = trained["is_token_level"]
            self._labels = list(trained["labels"])
            return
        found = self._tags()
        self.form = tag_schemes.form_of(found)
        stray = "" if self.form else tag_schemes.stray_tag(found)
        if stray:
            row = next(
                s.row for s in self.sentences("train") if stray in s.tags
            )
            raise ValueError(
                "Expected tags such as B-PER, I-PER and O, as others are. "
                f"Received: {stray!r} in {paths['train']!r}, in the sentence "
                f"that begins in row {row}."
            )
        tags = sorted(self._tags())
        self.is_token_level = not self.form
        if self.is_token_level:
            self._refuse_other_columns(tags)
            self._labels = tags
        else:
            kinds = sorted({tag[2:] for tag in tags if tag != tagging.OUTSIDE})
            self._labels = [
                *(p + kind for kind in kinds for p in tagging.PREFIXES),
                tagging.OUTSIDE,
            ]
        changed = sorted(found.difference(tags))
        self.origin = (
            f"{paths['train']}: a word and its tag in each row: tagging with "
            f"{len(tags)} tags ({text_tasks.listing(tags, 5)})"
            + f", written {text_tasks.listing(changed, 5)}"
            * bool(changed)
        )
        num_comments = sum(file.num_comments for file in self._read.values())
        if num_comments:
            self.origin += f"; {num_comments} rows of comments left out"

    def _refuse_other_columns(self, tags: list[str]) -> None:
        """Refuses what is no column of tags, or none of words."""
        path = self.files["train"]
        if len(tags) == 1:
            raise ValueError(
                f"Expected words with different tags. Received: {tags[0]!r} "
                f"for all words of {path!r}."
            )
        words = {w for s in self.sentences("train") for w in s.words}
        if tag_schemes.form_of(words):
            raise ValueError(
                "Expected a word and its tag in each row, the tag last. "
                f"Received: tags in place of words, such as {max(words)!r}, in "
                f"{path!r}."
            )

    def reading(self):
        of_columns = self.source.reading() if self.source else {}
        return of_columns | {"form": self.form}

    def has_labels(self, split):
        if self.source is not None:
            return self.source.has_labels(split)
        return self._file(split).sentences[0].has_tags

    def _file(self, split: str) -> conll.File:
        """What a file in CoNLL's layout has; only "test" may lack tags."""
        if split not in self._read:
            has_train = split == "test" and "train" in self.files
            train = self._file("train") if has_train else None
            self._read[split] = conll.read(self.files[split], train=train)
        return self._read[split]

    def sentences(self, split):
        path = self.files[split]
        if self.source is None:
            return [
                sentence._replace(tags=self._as_usual(sentence.tags))
                for sentence in self._file(split).sentences
            ]
        sentences = []
        for row in self.source.rows(split):
            words = labels_lib.items(row.texts[0])
            # Lists may have what no file of words and tags has.
            tags = [tag.strip() for tag in labels_lib.items(row.label)]
            if "" in tags or not all(map(str.strip, words)):
                raise ValueError(
                    "Expected words, and a tag for each. Received: an empty "
                    f"{'tag' if '' in tags else 'word'} in {path!r}, row "
                    f"{row.number}."
                )
            if row.label is None:
                tags = [self.labels[-1]] * len(words)
            if len(words) != len(tags):
                raise ValueError(
                    "Expected as many tags as words. Received: "
                    f"{len(words)} words and {len(tags)} tags in {path!r}, row "
                    f"{row.number}."
                )
            sentences.append(
                conll.Sentence(
                    tuple(words),
                    self._as_usual(tags),
                    row.number,
                    has_tags=row.label is not None,
                )
            )
        return sentences

    def _tags(self) -> set[str]:
        """Those of the training file."""
        return {t for s in self.sentences("train") for t in s.tags}

    def _as_usual(self, tags: Sequence[str]) -> tuple[str, ...]:
        """The tags of spans in one way, see `tag_schemes`."""
        return tuple(tag_schemes.as_bioes(tag, self.form) for tag in tags)

    def warnings(self, examples=None, features=None):
        names = self.labels
        if not self.is_token_level:
            names = sorted({label[2:] for label in names} - {""})
        found = labels_lib.remarks(names)
        return found + super().warnings(examples, features)

    def labels_of_tags(self, sentence, path):
        labels = super().labels_of_tags(sentence, path)
        unknown = [label for label in labels if label not in self.labels]
        if unknown:
            known, received, what = self.labels, unknown[0], "labels"
            if not self.is_token_level:
                # Not as they are written: see `_as_usual`.
                known = sorted({label[2:] for label in known} - {""})
                received, what = received[2:], "kinds of spans"
            raise ValueError(
                f"Expected one of the {what} {text_tasks.listing(known)}, as "
                f"in the training file. Received: {received!r} in {path!r}, "
                f"row {sentence.row}."
            )
        return labels
