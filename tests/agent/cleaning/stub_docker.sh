#!/bin/sh
# Stands in for docker's command line where there is no docker: the subcommands that the agent uses, on a directory.
#
#   state/{containers,images,volumes,networks}/<name>   one file for each thing; an image's holds "id name:tag"
#   state/fails, state/sleeps, state/resists            which subcommand fails, sleeps, or removes nothing
#   state/calls                                         what was called, a line each
state=${0%/*}/state
printf '%s\n' "$*" >>"$state/calls"

named() { # is this subcommand the one that the file names?
  [ -f "$state/$1" ] || return 1
  read -r subcommand <"$state/$1"
  case $2 in "$subcommand"*) return 0 ;; *) return 1 ;; esac
}

list() {
  for entry in "$state/$1"/*; do
    [ -e "$entry" ] || continue
    if read -r held <"$entry"; then echo "$held"; else echo "${entry##*/}"; fi
  done
}

# As docker does: an image goes by its id or by one of its names, and a network not while containers may be in it.
remove() {
  kind=$1 status=0
  shift
  for name in "$@"; do
    case $name in -*) continue ;; esac
    for entry in "$state/$kind"/*; do
      [ -e "$entry" ] || continue
      id= tag=
      read -r id tag <"$entry"
      case $name in "${entry##*/}" | "$id" | "$tag") ;; *) continue ;; esac
      if named resists "$command" || { [ "$kind" = networks ] && [ -n "$(list containers)" ]; }; then
        echo "Error response from daemon: $name is in use" >&2
        status=1
      else
        rm "$entry"
      fi
    done
  done
  return $status
}

if named sleeps "$*"; then exec sleep 600; fi
if named fails "$*"; then
  echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2
  exit 1
fi
command=$1
case $* in
  'ps --all --quiet --no-trunc') list containers ;;
  'images --no-trunc --format {{.ID}} {{.Repository}}:{{.Tag}}') list images ;;
  'volume ls --quiet') list volumes ;;
  'network ls --quiet --no-trunc --filter type=custom') list networks ;;
  'builder prune --all --force') rm -f "$state/cache" ;;
  'rm --force --volumes '*) shift && remove containers "$@" ;;
  'rmi --force '*) shift && remove images "$@" ;;
  'volume rm --force '*) command='volume rm' && shift 2 && remove volumes "$@" ;;
  'network rm '*) command='network rm' && shift 2 && remove networks "$@" ;;
  *) echo "docker: unknown command: $*" >&2 && exit 125 ;;
esac
