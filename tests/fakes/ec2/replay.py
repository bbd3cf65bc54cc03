"""Client tokens: the same request again gets the same answer, and a changed one is refused.

How long EC2 remembers a token, and whether the replay of an instant fleet lists its instances, AWS does not say. Here
it remembers for ever and answers the very same, errors inside included: another attempt needs another token.
"""

import json
from collections.abc import Callable

from fakes.ec2.account import Ec2Account
from fakes.ec2.reading import Params
from fakes.ec2.refusal import Ec2Refusal, invalid
from fakes.ec2.writing import Answer

LONGEST_TOKEN = 64


def replayed(account: Ec2Account, action: str, params: Params, act: Callable[[], Answer]) -> Answer:
    token = params.get("ClientToken", "")
    if not token:
        return act()
    if len(token) > LONGEST_TOKEN or not token.isascii():
        raise invalid(f"ClientToken: at most {LONGEST_TOKEN} ASCII characters")
    request = json.dumps(params, sort_keys=True, default=str)
    if (action, token) in account.replays:
        asked, answer = account.replays[action, token]
        if asked != request:
            raise Ec2Refusal("IdempotentParameterMismatch", f"Client token {token} was used with other parameters")
        return answer
    answer = act()
    account.replays[action, token] = (request, answer)
    return answer
