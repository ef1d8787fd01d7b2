"""The task on words and tags of one's own."""

from collections.abc import Mapping

from electra_tf.tasks import (
    conll,
    own_files,
    tag_schemes,
    tagging,
    text_tasks,
)
from electra_tf.tasks.own_files import OwnFiles


class OwnTagging(tagging.TaggingTask):
    """A tag for each word.

    Tags stand for spans if all do, in one of the ways of `tag_schemes`, else
    for themselves. The labels are those of the training file.

    Args:
      name: See `Task`.
      paths: Split -> file, in CoNLL's layout if there is no `source`.
      source: Columns of words and of tags, separated by white space or lists.
      trained: See `own_data.task_of_model`; None to read the training file.

    Raises:
      ValueError: If the files cannot be read, or the tags are of two kinds.
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
        self.form = ""
        self._is_mixed = False
        self._read: dict[str, conll.File] = {}
        if trained is not None:
            self.form = trained["reading"]["form"]
            self.is_token_level = trained["is_token_level"]
            self.scheme = trained["scheme"]
            self._labels = list(trained["labels"])
            return
        sentences = self.sentences("train")
        tags = {t for s in sentences for t in s.tags} - {tagging.NO_LABEL}
        self.form = tag_schemes.form_of(tags)
        self.is_token_level = not self.form
        self._labels = text_tasks.in_order(tags)
        if self.form:
            self.scheme, self._is_mixed = tag_schemes.scheme_of(
                (sentence.tags for sentence in sentences), self.form
            )
            tags = {tag_schemes.as_bioes(tag, self.form) for tag in tags}
            kinds = sorted({tag[2:] for tag in tags} - {""})
            self._labels = [
                *(p + kind for kind in kinds for p in tagging.PREFIXES),
                tagging.OUTSIDE,
            ]
        elif stray := tag_schemes.stray_tag(tags):
            row = next(s.row for s in sentences if stray in s.tags)
            raise ValueError(
                "Expected tags such as B-PER, I-PER and O, as others are. "
                f"Received: {stray!r} in {paths['train']!r}, in the sentence "
                f"that begins in row {row}."
            )
        if len(tags) < 2:
            raise ValueError(
                f"Expected words with different tags. Received: "
                f"{text_tasks.listing(sorted(tags))} for all words of "
                f"{paths['train']!r}."
            )
        if source is None:
            self.origin = (
                f"{paths['train']}: a word first and its tag last in each row: "
                f"tagging with {self.listed()}"
            )

    def listed(self) -> str:
        """How many tags there are, and which, for a message."""
        kinds = self._kinds() if self.form else self.labels
        what = f"kinds of spans in {self.scheme}" if self.form else "tags"
        return f"{len(kinds)} {what} ({text_tasks.listing(kinds, 5)})"

    def _kinds(self) -> list[str]:
        return sorted({label[2:] for label in self.labels} - {""})

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
        if self.source is None:
            return self._file(split).sentences
        sentences = []
        for row in self.source.rows(split):
            words = own_files.items(row.texts[0])
            tags = own_files.items(row.label)
            if row.label is None:
                tags = [self.labels[-1]] * len(words)
            if len(words) != len(tags) or not all(map(str.strip, words + tags)):
                raise ValueError(
                    "Expected words, none empty, and a tag for each "
                    "(--task_type says another kind of labels). Received: "
                    f"{len(words)} words and {len(tags)} tags in "
                    f"{self.files[split]!r}, row {row.number}."
                )
            has_tags = row.label is not None
            sentences.append(
                conll.Sentence(tuple(words), tuple(tags), row.number, has_tags)
            )
        return sentences

    def labels_of_tags(self, sentence, path):
        tags = [tag_schemes.as_bioes(tag, self.form) for tag in sentence.tags]
        has_none = [tag == tagging.NO_LABEL for tag in tags]
        if self.form:  # A word without a label ends the span before it.
            pairs = zip(tags, has_none, strict=True)
            tags = [tagging.OUTSIDE if none else tag for tag, none in pairs]
        sentence = sentence._replace(tags=tuple(tags))
        pairs = zip(
            super().labels_of_tags(sentence, path), has_none, strict=True
        )
        labels = [tagging.NO_LABEL if none else tag for tag, none in pairs]
        unknown = {*labels} - {*self.labels, tagging.NO_LABEL}
        if unknown:
            # Of spans the kind, as their letters are not those of the file.
            names = self._kinds() if self.form else self.labels
            name = min(unknown)[2:] if self.form else min(unknown)
            raise ValueError(
                f"Expected tags of {text_tasks.listing(names)}, as in the "
                f"training file. Received: {name!r} in {path!r}, row "
                f"{sentence.row}."
            )
        return tuple(labels)

    def warnings(self, examples=None, features=None):
        lines = []
        if self._is_mixed:
            lines.append(
                f"the tags of training are in {self.scheme}, but some spans "
                "begin or end in another scheme: answers are in the first"
            )
        if self.is_token_level and all(map(str.isdigit, self.labels)):
            lines.append(
                "the tags are numbers, and scored as those of words: spans "
                "need their names, --label_names=O,B-PER,I-PER,..."
            )
        if self.source is not None:
            lines += self.source.warnings()
        return lines + super().warnings(examples, features)
