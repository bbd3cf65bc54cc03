// Judges requests by IAM policies: a JSON list of them on stdin, a JSON list of verdicts on stdout.
// node judge.mjs <the simulator's index.js>
const { runSimulation } = await import(process.argv[2])

let text = ''
for await (const part of process.stdin) text += part

const verdicts = []
for (const { policy, principal, action, resource, account, context } of JSON.parse(text)) {
  const found = await runSimulation(
    {
      request: { principal, action, resource: { resource, accountId: account }, contextVariables: context },
      identityPolicies: [{ name: 'judged', policy }],
      serviceControlPolicies: [],
      resourceControlPolicies: []
    },
    {}
  )
  verdicts.push(
    found.resultType === 'error'
      ? { result: 'Error', why: JSON.stringify(found.errors) }
      : { result: found.overallResult, ignored: found.result?.ignoredContextKeys ?? [] }
  )
}
process.stdout.write(JSON.stringify(verdicts))
