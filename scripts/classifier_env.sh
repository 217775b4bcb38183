# Sourced, after env.sh, by the launchers of run_classifier.py: the tasks'
# settings, where their data are looked for, and what is said if they or the
# checkpoint are not there.

CLUE_TASKS="afqmc tnews iflytek cmnli ocnli wsc csl copa"
FEWCLUE_TASKS="fewclue_eprstmt fewclue_csldcp fewclue_tnews fewclue_iflytek"
FEWCLUE_TASKS="$FEWCLUE_TASKS fewclue_ocnli fewclue_bustm fewclue_csl"
FEWCLUE_TASKS="$FEWCLUE_TASKS fewclue_cluewsc"

# task_settings TASK: sets SETTINGS to length, batch size, learning rate, epochs
# and steps between checkpoints (five to fifteen a run).
#   lcqmc                  those of albert_zh's launcher
#   afqmc ... wsc, csl     those that CLUE's figures of ALBERT-tiny are from;
#                          albert_zh's launcher has 3 epochs for iflytek,
#                          length 128 and batch 16 for csl, 1e-5, batch 16 and
#                          10 epochs for wsc
#   ocnli                  as cmnli, which it replaces, an epoch more
#   copa and FewCLUE       nobody's: chosen here for so few examples
task_settings() {
  case "$1" in
    lcqmc_pair)    SETTINGS=(128 64 1e-4 5 1500) ;;
    afqmc)         SETTINGS=(128 16 2e-5 3 600) ;;
    tnews|tnews10) SETTINGS=(128 16 2e-5 3 1000) ;;
    iflytek)       SETTINGS=(128 32 2e-5 10 380) ;;
    cmnli)         SETTINGS=(128 64 3e-5 2 1200) ;;
    ocnli)         SETTINGS=(128 64 3e-5 3 240) ;;
    wsc|wsc10|cluewsc2020) SETTINGS=(128 8 1e-4 50 780) ;;
    csl)           SETTINGS=(256 4 1e-5 5 2500) ;;
    copa)          SETTINGS=(128 16 2e-5 10 50) ;;
    fewclue_csldcp|fewclue_csl) SETTINGS=(256 8 1e-4 20 50) ;;
    fewclue_*)     SETTINGS=(128 8 1e-4 20 50) ;;
  esac
}

# Names under which a task's folder, or its zip, is looked for.
data_names() {
  local name="${1#fewclue_}" root
  case "$1" in
    wsc*|cluewsc2020) echo "wsc cluewsc2020 cluewsc2020_public" ;;
    tnews10) echo "tnews tnews_public" ;;
    lcqmc*) echo "lcqmc LCQMC" ;;
    fewclue_*)
      echo "$1" "$name"
      for root in datasets FewCLUE/datasets FewCLUE-main/datasets; do
        echo "$root/$name"
      done ;;
    *) echo "$1 $1_public" ;;
  esac
}

# What to download for a task.
download_of() {
  local clue=https://storage.googleapis.com/cluebenchmark/tasks
  case "$1" in
    lcqmc*) echo "http://icrc.hitsz.edu.cn/info/1037/1146.htm (LCQMC: train.txt, dev.txt, test.txt)" ;;
    wsc*|cluewsc2020) echo "$clue/cluewsc2020_public.zip" ;;
    tnews10) echo "$clue/tnews_public.zip" ;;
    fewclue_*) echo "https://github.com/CLUEbenchmark/FewCLUE (its folder datasets/${1#fewclue_})" ;;
    *) echo "$clue/$1_public.zip" ;;
  esac
}

# has_training_file PATH: whether it is a zip, or a folder with a training file
# in it or one level below.
has_training_file() {
  local file
  case "$1" in *.zip) [ -f "$1" ]; return ;; esac
  for file in "$1"/train*.* "$1"/*/train*.*; do
    [ -f "$file" ] && return
  done
  return 1
}

# find_data TASK FOLDER: sets DATA to the task's folder or zip in FOLDER. A
# folder that has no training file counts where there is nothing better: what
# reads it says best what is wrong with it.
find_data() {
  local name path other=""
  for name in $(data_names "$1"); do
    for path in "$2/$name" "$2/$name.zip"; do
      DATA="$path"
      has_training_file "$path" && return
      [ -d "$path" ] && other="${other:-$path}"
    done
  done
  DATA="$other"
  [ -n "$DATA" ]
}

# What to say where find_data finds nothing.
missing_data() {
  local names
  names="$(data_names "$1" | tr '\n' ' ' | sed 's/ *$//; s/ /, /g')"
  echo "there is no $names in $2, as a folder or .zip; put it there as it comes" \
    "from $(download_of "$1")"
}

# Prints the flag that $1 is, if the launcher takes it for itself: those below
# and the words in OWN_FLAGS.
own_flag() {
  local name="${1%%=*}"
  name="${name#-}"
  name="${name#-}"
  case "$1" in -*) ;; *) return ;; esac
  case " data_dir init_checkpoint bert_config_file vocab_file output_dir ${OWN_FLAGS:-} " in
    *" $name "*) echo "$name" ;;
  esac
}

# parse_arguments "$@": sets DATA_DIR and the like from the flags of these names
# (which go before the variables), and ARGUMENTS to what is left.
parse_arguments() {
  local name value
  ARGUMENTS=()
  while [ $# -gt 0 ]; do
    name="$(own_flag "$1")"
    value="${1#*=}"
    if [ -n "$name" ] && [ "$1" = "$value" ] && [ "$name" != check_only ]; then
      [ $# -gt 1 ] || die "$1 has no value"
      value="$2"
      shift
    fi
    case "$name" in
      "") ARGUMENTS+=("$1") ;;
      data_dir) DATA_DIR="$value" ;;
      init_checkpoint) INIT_CHECKPOINT="${value:-none}" ;;
      bert_config_file) CONFIG_FILE="$value" ;;
      vocab_file) VOCAB_FILE="$value" ;;
      output_dir) OUTPUT_DIR="$value" ;;
      variant) VARIANT="$value" ;;
      tasks) TASKS="$value" ;;
      check_only) CHECK_ONLY=yes ;;
    esac
    shift
  done
}

# is_remote PATH: gs:// and the like, which the runner looks at itself.
is_remote() {
  case "$1" in *://*) return 0 ;; esac
  return 1
}

# Ends the run if INIT_CHECKPOINT is not there; INIT_CHECKPOINT=none, or an empty
# --init_checkpoint, is for random weights.
check_checkpoint() {
  local advice="albert_zh's are linked at https://github.com/brightmart/albert_zh:"
  advice="$advice albert_tiny_489k.zip has albert_tiny_489k/albert_model.ckpt, for CONFIG_FILE albert_config_tiny.json;"
  advice="$advice 'none' begins from random weights"
  [ -n "${INIT_CHECKPOINT:-}" ] ||
    die "give a checkpoint as --init_checkpoint or INIT_CHECKPOINT; $advice"
  if [ "$INIT_CHECKPOINT" = none ]; then
    INIT_CHECKPOINT=""
  elif ! is_remote "$INIT_CHECKPOINT" && [ ! -e "$INIT_CHECKPOINT.index" ] &&
      [ ! -e "$INIT_CHECKPOINT/checkpoint" ] &&
      ! ls "$INIT_CHECKPOINT"/*.index > /dev/null 2>&1; then
    die "there is no checkpoint $INIT_CHECKPOINT ($INIT_CHECKPOINT.index is not there); $advice"
  fi
}

# locate_data TASK: sets DATA to the task's folder or zip, which is in DATA_DIR
# or is DATA_DIR.
locate_data() {
  [ -n "${DATA_DIR:-}" ] ||
    die "give the folder or zip of $1, or the folder that has it, as" \
      "--data_dir or DATA_DIR; it comes from $(download_of "$1")"
  is_remote "$DATA_DIR" || [ -e "$DATA_DIR" ] ||
    die "there is no $DATA_DIR (--data_dir); $1 comes from $(download_of "$1")"
  if is_remote "$DATA_DIR"; then
    DATA="$DATA_DIR"
  elif ! find_data "$1" "$DATA_DIR"; then
    DATA="$DATA_DIR"
    has_training_file "$DATA" || die "$1: $(missing_data "$1" "$DATA_DIR")"
  fi
}

# classifier_command TASK DATA OUTPUT FLAG...: sets COMMAND to what trains it with
# its settings; of a flag that is there twice the last counts.
classifier_command() {
  local task="$1" data="$2" output="$3"
  shift 3
  task_settings "$task"
  COMMAND=("$PYTHON" "$ROOT/run_classifier.py"
    --task_name="$task"
    --do_train=True
    --do_eval=True
    --do_predict=True
    --data_dir="$data"
    --vocab_file="${VOCAB_FILE:-$ROOT/albert_config/vocab.txt}"
    --bert_config_file="${CONFIG_FILE:-$ROOT/albert_config/albert_config_tiny.json}"
    --init_checkpoint="$INIT_CHECKPOINT"
    --output_dir="$output"
    --keep_checkpoint_max=0
    --max_seq_length="${SETTINGS[0]}"
    --train_batch_size="${SETTINGS[1]}"
    --eval_batch_size=64
    --predict_batch_size=64
    --learning_rate="${SETTINGS[2]}"
    --num_train_epochs="${SETTINGS[3]}"
    --save_checkpoints_steps="${SETTINGS[4]}"
    "$@")
}
