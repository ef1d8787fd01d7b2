"""What completes the command electra-tf in a shell.

    electra-tf completion bash >> ~/.bash_completion
    electra-tf completion zsh > "${fpath[1]}/_electra-tf"

and start the shell anew. Verbs stand in the script; the flags of a verb are
taken from its --help when they are first asked for, so they are those of the
version that is installed. All else is completed to files.
"""

import shlex
from collections.abc import Mapping

SHELLS = ("bash", "zsh")

# --help of argparse has "  --name, --no-name", that of absl "  --[no]name:".
_FLAGS = r"""command electra-tf "$1" --help 2>/dev/null |
    sed -nE 's/^  (-h, )?(--[^ :,]+(, --[^ :,]+)?).*/\2/p' |
    sed -E 's/^--\[no\](.*)/--\1, --no\1/' |
    tr -d ' ' | tr ',' '\n' | sort -u"""

_BASH = r"""# bash completion of electra-tf; made by: electra-tf completion bash
declare -gA _electra_tf_flags

_electra_tf_flags_of() {
  @FLAGS@
}

_electra_tf() {
  local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@VERBS@ completion --help --version" -- "$word"))
  elif [[ $verb == completion ]]; then
    COMPREPLY=($(compgen -W "bash zsh" -- "$word"))
  elif [[ $word == -* ]]; then
    if [[ ! -v _electra_tf_flags[$verb] ]]; then
      _electra_tf_flags[$verb]=$(_electra_tf_flags_of "$verb")
    fi
    COMPREPLY=($(compgen -W "${_electra_tf_flags[$verb]}" -- "$word"))
  elif [[ $word == = || ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
    COMPREPLY=($(compgen -f -- "${word#=}"))
  fi
}

complete -o default -o bashdefault -F _electra_tf electra-tf
"""

_ZSH = r"""#compdef electra-tf
# zsh completion of electra-tf; made by: electra-tf completion zsh
typeset -gA _electra_tf_flags

_electra_tf_flags_of() {
  @FLAGS@
}

_electra_tf() {
  local -a verbs=(
@VERBS@
    'completion:Prints what completes these verbs in a shell.'
  )
  local verb=${words[2]}
  if ((CURRENT == 2)); then
    _describe verb verbs
  elif [[ $verb == completion ]]; then
    compadd bash zsh
  elif [[ $PREFIX == -*=* ]]; then
    compset -P '*='
    _files
  elif [[ $PREFIX == -* ]]; then
    if ((! ${+_electra_tf_flags[$verb]})); then
      _electra_tf_flags[$verb]=$(_electra_tf_flags_of "$verb")
    fi
    compadd -- ${(f)_electra_tf_flags[$verb]}
  else
    _files
  fi
}

compdef _electra_tf electra-tf
# Read as a file of fpath, this is the function that is asked.
if [[ ${funcstack[1]} == _electra-tf ]]; then _electra_tf; fi
"""


def script(shell: str, verbs: Mapping[str, str]) -> str:
    """What the shell has to read.

    Args:
      shell: One of `SHELLS`.
      verbs: Verb -> what it does, in a line.
    """
    if shell == "bash":
        return _filled(_BASH, " ".join(verbs))
    quoted = (shlex.quote(f"{verb}:{line}") for verb, line in verbs.items())
    return _filled(_ZSH, "\n".join(f"    {line}" for line in quoted))


def _filled(template: str, verbs: str) -> str:
    return template.replace("@FLAGS@", _FLAGS).replace("@VERBS@", verbs)
