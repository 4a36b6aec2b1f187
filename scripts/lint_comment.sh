#!/bin/sh
# The second step of action.yml: one comment on the pull request, found again by its first line and written over.
# A token that may not write (a pull request from a fork) costs the comment, not the job.
set -eu

mark=$(head -n 1 "$ECO_MARKDOWN")
where=repos/$GITHUB_REPOSITORY/issues

known=$(gh api --paginate "$where/$ECO_PULL/comments" \
    --jq ".[] | select(.body | startswith(\"$mark\")) | .id" 2>/dev/null | head -n 1) || known=

if [ -n "$known" ]; then
    gh api --silent --method PATCH "$where/comments/$known" -F "body=@$ECO_MARKDOWN" && exit 0
elif [ "$(wc -l <"$ECO_MARKDOWN")" -le 2 ]; then
    exit 0 # nothing found, and nothing said before: no comment
else
    gh api --silent --method POST "$where/$ECO_PULL/comments" -F "body=@$ECO_MARKDOWN" && exit 0
fi
echo "::notice::The comment could not be written; the findings are in the job's summary."
