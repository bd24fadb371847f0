import { expect, test } from 'vitest'
import { commanded } from '../fixtures/commanded.ts'
import { discardCommand, replayCommand } from './dead-letters-change.ts'
import { listCommand, showCommand } from './dead-letters-read.ts'
import { migrateCommand } from './migrate.ts'
import { sweepCommand } from './sweep.ts'

test.each([
  [replayCommand, 'full set of attempts.', 'dead-letters replay --all --yes'],
  [discardCommand, 'A buried event stays dead', 'dead-letters discard --consumer billing'],
  [listCommand, 'Without --limit', 'dead-letters list --search'],
  [showCommand, 'terminal would obey', 'dead-letters show 0c5d9f52'],
  [migrateCommand, 'rolling deployment', 'migrate --check'],
  [sweepCommand, 'Running guards do so', 'sweep --trust-clock'],
])('%# has a help with details and examples', async (make, detail, example) => {
  const { stdout } = await commanded(make, ['--help'])
  expect(stdout).toContain(detail)
  expect(stdout).toContain(`\n  $ npx onceward ${example}`)
})
