import { expect, test } from 'vitest'
import { foldedStack } from './stack.ts'

const OWN = '    at charge (file:///srv/billing/charge.js:13:21)'
const OURS =
  '    at runHandler (file:///srv/node_modules/@onceward/core/dist/handler/run-handler.js:90:11)'
const NODE = '    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)'

test('folds the frames of onceward and of Node, and keeps those of the user', () => {
  const folded = foldedStack(['Error: declined', OWN, OURS, NODE].join('\n'))
  expect(folded).toBe(`Error: declined\n${OWN}\n    … and 2 frames of onceward and Node`)
})

test.each([
  ['without a stack', 'Error: declined'],
  ['with frames of the user alone', `Error: declined\n${OWN}`],
  ['with frames of onceward alone, which are all that is known', `Error: declined\n${OURS}`],
])('leaves an error as it is %s', (_, text) => {
  expect(foldedStack(text)).toBe(text)
})
