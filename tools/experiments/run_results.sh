#!/usr/bin/env bash
# Runs everything that docs/results.md reports, from public sets to its tables,
# which documented.py takes from build/results/results.json into the page.
#
#   tools/experiments/run_results.sh DATA [STEP...]
#
# DATA is a folder as tools/experiments/build_results_data.py describes it. A STEP is one of
# data, english, korean (pre-training), a task below, or table; all by default.
# english_data and cased_data are what docs/ner.md needs.
# Results go to build/results. What is finished there is not run again. STARTS
# in the environment limits fine-tuning to some of from_scratch, pretrained and
# pretrained_decay.
set -euo pipefail

refuse() {
  echo "run_results: error: $1" >&2
  exit 1
}

[ $# -gt 0 ] || refuse "Expected tools/experiments/run_results.sh DATA [STEP...]."
[ -d "$1" ] || refuse "Expected the folder of the public sets. Received: $1"
data=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
out=build/results
starts=${STARTS:-from_scratch pretrained pretrained_decay}
export PYTHONPATH=. TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-3}

build_dataset() {  # model, corpus, name, further flags
  $python tools/build_pretraining_dataset.py --corpus-dir="$out/$2" \
    --vocab-file="$out/$1/vocab.txt" --output-dir="$out/$1/$3" \
    --max-seq-length=128 --no-blanks-separate-docs --num-processes=2 "${@:4}"
}

build_english() {  # model, flags of its vocabulary
  mkdir -p "$out/$1"
  $python tools/build_vocab.py --corpus_dir=$out/english/corpus \
    --vocab_file="$out/$1/vocab.txt" --vocab_size=8192 \
    --character-coverage=0.99999 "${@:2}"
  build_dataset "$1" english/corpus tfrecords --num-out-files=8
  build_dataset "$1" english/docstrings/heldout heldout_tfrecords --num-out-files=2
}

build_english_data() {
  $python tools/quickstart/build_docstring_corpus.py --output_dir=$out/english/docstrings \
    --max_megabytes=14 --heldout_fraction=0.05
  $python tools/experiments/build_results_data.py --data_dir="$data" --output_dir=$out
  rm -rf $out/english/corpus/docstrings  # Perhaps of other packages.
  cp -r $out/english/docstrings/train/. $out/english/corpus/docstrings
  build_english english
}

build_korean_data() {
  $python tools/build_vocab.py --corpus_dir=$out/korean/corpus \
    --vocab_file=$out/korean/vocab.txt --vocab_size=8192 \
    --character-coverage=0.9999 --no-lower-case --no-strip-accents
  build_dataset korean korean/corpus tfrecords --num-out-files=4
}

finetune() {  # task, epochs, further parameters
  # The two that are compared differ in nothing but the weights they begin with.
  finetune_from from_scratch "$@" \
    --gin_param=FinetuningConfig.from_scratch=True
  finetune_from pretrained "$@"
  # As the paper has it: the lower a layer, the smaller its rate.
  finetune_from pretrained_decay "$@" \
    --gin_param=OptimizerConfig.layerwise_lr_decay=0.8
}

finetune_from() {  # start, task, epochs, further parameters
  case " $starts " in *" $1 "*) ;; *) return ;; esac
  $python -m electra_tf.run_finetuning \
    --gin_file="gin/finetune/$2.gin" --gin_file=gin/results/finetuning.gin \
    --gin_param="FinetuningDataConfig.num_train_epochs=$3" \
    "${@:4}" --model_dir="$out/runs/$2/$1"
}

korean() {  # task, epochs, file of the dev split, further parameters
  local files=$out/finetuning_data/$1
  finetune "$1" "$2" \
    --gin_param="FinetuningConfig.init_checkpoint='$out/korean/pretrain'" \
    --gin_param="FinetuningDataConfig.data_dir=''" \
    --gin_param="FinetuningDataConfig.train_file='$files/train.tsv'" \
    --gin_param="FinetuningDataConfig.dev_file='$files/dev.tsv'" "${@:3}"
}

run_step() {
  case $1 in
    data) build_english_data; build_korean_data ;;
    english_data) build_english_data ;;
    cased_data) build_english english_cased --no-lower-case --no-strip-accents ;;
    english | korean) $python tools/experiments/results_pretraining.py "$1" ;;
    cola | mrpc | sts | ner) finetune "$1" 3 ;;
    rte) finetune rte 5 ;;
    sst) finetune sst 0.5 ;;
    squadv1)
      finetune squadv1 3 \
        --gin_param=QuestionAnsweringConfig.max_query_length=32 \
        --gin_param=QuestionAnsweringConfig.doc_stride=64 ;;
    hate_speech_ko) korean hate_speech_ko 3 ;;
    korsts)
      korean korsts 3 \
        --gin_param="FinetuningDataConfig.test_file='$out/finetuning_data/korsts/test.tsv'" ;;
    table) $python tools/experiments/results_figures.py --results-dir=$out ;;
  esac
}

all=(data english korean cola mrpc rte sst sts ner squadv1 hate_speech_ko korsts
  table)
steps=("${@:-${all[@]}}")

# Before hours of work.
refuse_unknown() {  # what, known ones, a word
  case " $2 " in *" $3 "*) ;; *) refuse "Expected $1 among $2. Received: $3" ;; esac
}
for step in "${steps[@]}"; do
  refuse_unknown "steps" "${all[*]} english_data cased_data" "$step"
done
for start in $starts; do
  refuse_unknown "STARTS" "from_scratch pretrained pretrained_decay" "$start"
done

for step in "${steps[@]}"; do
  run_step "$step"
done
