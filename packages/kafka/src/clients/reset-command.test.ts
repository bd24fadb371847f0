import { expect, test } from 'vitest'
import { resetCommand } from './reset-command.ts'

test('names that a shell would read in another way are quoted', () => {
  const at = { consumer: 'billing', topic: 'orders.eu', partition: 3 }
  expect(resetCommand(at, 12)).toBe(
    'npx onceward offsets reset --consumer billing --topic orders.eu --partition 3 --to 12',
  )
  expect(resetCommand({ ...at, consumer: "Bob's $HOME" }, 0)).toContain(
    "--consumer 'Bob'\\''s $HOME' --topic",
  )
})
