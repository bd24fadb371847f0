// @module-tag nightly

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { database, freePort, proxy } from '@onceward/testing'
import { expect, test } from 'vitest'
import { cachedEnvironment, cli } from '../fixtures/cli.ts'

const SECRET = 's3cr3t-pass'
const READING = [
  ['status'],
  ['doctor'],
  ['explain', 'a', '--consumer', 'b'],
  ['dead-letters', 'list'],
  ['dead-letters', 'replay', '--all', '--yes'],
  ['sweep'],
] as const

test('a dead server is named with host and port: no stack, no password, exit code 3', async () => {
  const url = `postgres://alice:${SECRET}@127.0.0.1:${await freePort()}/shop`
  for (const args of [...READING.slice(0, 4), ['migrate']]) {
    const { code, stderr, stdout } = await cli([...args, '--url', url])
    expect({ args, code, stdout }).toEqual({ args, code: 3, stdout: '' })
    expect(stderr).toMatch(/127\.0\.0\.1:\d+|ECONNREFUSED/)
    expect(stderr).not.toMatch(new RegExp(`${SECRET}|\\n\\s+at `))
  }
})

test('missing tables say which schema and what to run, for every command', async () => {
  const { url } = await database()
  for (const args of READING) {
    if (args[0] === 'doctor') continue
    const { code, stderr } = await cli(args, { url })
    expect({ args, code }).toEqual({ args, code: 3 })
    expect(stderr).toMatch(
      /^onceward: There are no tables of onceward in schema "onceward".*npx onceward migrate/,
    )
  }
  const doctor = await cli(['doctor'], { url })
  expect(doctor).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/no tables[\s\S]*→ Run `npx onceward migrate`/),
  })
})

// Red before: errors that the parser finds were text.
test.each([
  [['nope'], /unknown command 'nope'/],
  [['status', '--nope'], /unknown option '--nope'/],
  [['dead-letters', 'discard', '--all'], /required option '--why <text>' not specified/],
  [['status'], /Which database/],
])('with --json a wrong command line is JSON: %j', async (args, text) => {
  const { code, stderr, stdout } = await cli([...args, '--json'])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(JSON.parse(stderr)).toEqual({
    error: { message: expect.stringMatching(text), exitCode: 2 },
  })
})

test.each([
  [['status'], /Which database\?.*DATABASE_URL/],
  [['status', '--url', `mysql://a:${SECRET}@b/c`], /connection string such as/],
  [['status', '--url', `postgres://a:${SECRET}@[b/c`], /connection string such as/],
  // Red before: `a:7` was taken for the host, and the rest of the password was shown as the name of the database.
  [['status', '--url', `postgres://a:7/${SECRET}@b/c`], /such as.*write %2F for \//],
  [['statsu'], /unknown command.*\n?.*status/],
  [['status', '--jsn'], /unknown option.*\n?.*--json/],
  [['status', 'extra'], /too many arguments/],
  [['explain', 'a', '--url', 'postgres://h/d'], /Give its key and --consumer/],
  [['explain', '', '--consumer', 'b', '--url', 'postgres://h/d'], /the key not to be empty/],
  [['explain', 'a', '--consumer', '', '--url', 'postgres://h/d'], /--consumer not to be empty/],
  [
    ['explain', 'a', '--consumer', 'b', '--tenant', '', '--url', 'postgres://h/d'],
    /--tenant not to be empty/,
  ],
  [
    ['dead-letters', 'replay', '--url', 'postgres://h/d'],
    /Give ids, a filter such as --consumer, or --all/,
  ],
  [['dead-letters', 'discard', '--all', '--url', 'postgres://h/d'], /--why/],
  [['dead-letters', 'list', '--reason', 'bored', '--url', 'postgres://h/d'], /Allowed choices are/],
  [['dead-letters', 'list', '--since', 'soon', '--url', 'postgres://h/d'], /Expected --since/],
  [['dead-letters', 'replay', '4711', '--url', 'postgres://h/d'], /UUIDs/],
  [['dead-letters', 'show', '4711', '--url', 'postgres://h/d'], /id of a dead letter.*UUID/],
  [['migrate', '--print', '--check'], /not both/],
  [['watch', '--interval', '1', '--url', 'postgres://h/d'], /--interval/],
  [['dead-letters', 'requeue', '--all', '--url', 'postgres://h/d'], /Which broker/],
  [
    ['dead-letters', 'list', '--since', '99999999999d', '--url', 'postgres://h/d'],
    /Expected --since/,
  ],
  [['dead-letters', 'list', '--limit', '0', '--url', 'postgres://h/d'], /--limit.*from 1 up/],
  [['watch', '--interval', '30d', '--url', 'postgres://h/d'], /--interval.*to 1d/],
  [['watch', '--times', '1.5', '--url', 'postgres://h/d'], /--times/],
  [['console', '--port', '99999', '--url', 'postgres://h/d'], /--port to be at most 65535/],
  [['console', '--host', '', '--url', 'postgres://h/d'], /--host not to be empty/],
  [['status', '--schema', '', '--url', 'postgres://h/d'], /Expected `schema`/],
  [['doctor', '--horizon', 'long', '--url', 'postgres://h/d'], /--horizon/],
  // Red before: February 30 was taken for March 2, and the empty text for the name of the login.
  [
    ['dead-letters', 'list', '--since', '2026-02-30', '--url', 'postgres://h/d'],
    /Expected --since/,
  ],
  [
    ['dead-letters', 'list', '--until', '2026-02-30T10:00:00Z', '--url', 'postgres://h/d'],
    /Expected --until/,
  ],
  ...['replay', 'discard', 'requeue'].map((verb): [string[], RegExp] => [
    [
      ...['dead-letters', verb, '--all', '--yes', '--by', '', '--url', 'postgres://h/d'],
      ...(verb === 'discard' ? ['--why', 'test'] : []),
      ...(verb === 'requeue' ? ['--broker', 'amqp://localhost'] : []),
    ],
    /--by not to be empty/,
  ]),
  [['console', '--by', ' ', '--url', 'postgres://h/d'], /--by not to be empty/],
  [['console', '--allowed-host', '', '--url', 'postgres://h/d'], /--allowed-host not to be empty/],
  ...[['console'], ['doctor'], ['explain', 'a', '--consumer', 'b']].map(
    (command): [string[], RegExp] => [
      [...command, '--redis-namespace', '', '--url', 'postgres://h/d'],
      /--redis-namespace not to be empty/,
    ],
  ),
  [['doctor', '--horizon', '=14d', '--url', 'postgres://h/d'], /--horizon/],
  [['doctor', '--horizon', `${'9'.repeat(400)}d`, '--url', 'postgres://h/d'], /--horizon/],
  // Red before: all migrations were applied, and the table of leases was printed as it is by default.
  [['migrate', '--after', '1', '--url', 'postgres://h/d'], /--after is for --print/],
  [['migrate', '--check', '--after', '1', '--url', 'postgres://h/d'], /--after is for --print/],
  [['migrate', '--print', '--leases', 'unlogged'], /give it without --print and --check/],
  [
    ['migrate', '--check', '--leases', 'logged', '--url', 'postgres://h/d'],
    /give it without --print and --check/,
  ],
  [
    ['migrate', '--leases', 'often', '--check', '--url', 'postgres://h/d'],
    /Allowed choices are logged, unlogged/,
  ],
])('onceward %j is refused with a sentence and exit code 2', async (args, text) => {
  const { code, stderr, stdout } = await cli(args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(text)
  expect(stderr).not.toMatch(new RegExp(`${SECRET}|\\n\\s+at `))
})

test('with --json an error is JSON too', async () => {
  const { code, stderr } = await cli(['status', '--json', '--url', 'nonsense'])
  expect(code).toBe(2)
  expect(JSON.parse(stderr)).toEqual({ error: { message: expect.any(String), exitCode: 2 } })
})

test('every command has help with an example and its rights', async () => {
  const names = [
    'migrate',
    'doctor',
    'explain',
    'dead-letters',
    'status',
    'watch',
    'sweep',
    'completion',
  ]
  const commands = [
    ...names.map((name) => [name]),
    ...['list', 'show', 'replay', 'requeue', 'discard'].map((name) => ['dead-letters', name]),
  ]
  const helps = await Promise.all(commands.map((path) => cli([...path, '--help'])))
  for (const [index, { code, stdout }] of helps.entries()) {
    expect(code).toBe(0)
    expect(stdout).toMatch(/Rights: \S/)
    expect(stdout).toContain(`$ npx onceward ${commands[index]?.join(' ')}`)
  }
  expect((await cli([])).code).toBe(2)
  expect(await cli(['--version'])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d+\./),
  })
})

test('the reader of a pipe may go', () => {
  const program = fileURLToPath(new URL('../../bin/onceward.js', import.meta.url))
  const line = `'${process.execPath}' '${program}' migrate --print | head -n 1`
  const { stderr, stdout } = spawnSync('bash', ['-c', line], { encoding: 'utf8' })
  expect({ stderr, stdout }).toEqual({ stderr: '', stdout: '-- onceward 000001-inbox.sql\n' })
})

// Red before: it was 0, also of a change that had failed.
test('the exit code of a command stays, if the reader of the pipe has gone', async () => {
  const { url } = await database()
  const program = fileURLToPath(new URL('../../bin/onceward.js', import.meta.url))
  const env = { ...cachedEnvironment(), DATABASE_URL: url }
  const codeOf = (...args: readonly string[]): number | null => {
    const command = [process.execPath, program, ...args].map((word) => `'${word}'`).join(' ')
    // The pipe is closed long before anything is written.
    const line = `${command} | true; exit "\${PIPESTATUS[0]}"`
    return spawnSync('bash', ['-c', line], { env }).status
  }
  expect(codeOf('migrate', '--check')).toBe(1)
  expect((await cli(['migrate'], { url })).code).toBe(0)
  expect(codeOf('migrate', '--check')).toBe(0)
  // Without an end of its own.
  expect(codeOf('watch', '--interval', '100ms')).toBe(0)
})

test('an answer that cannot be written is an error, and not a file that is too short', async () => {
  const program = fileURLToPath(new URL('../../bin/onceward.js', import.meta.url))
  const line = `'${process.execPath}' '${program}' migrate --print > /dev/full`
  const { status, stderr } = spawnSync('bash', ['-c', line], { encoding: 'utf8' })
  expect({ status, stderr }).toEqual({
    status: 3,
    stderr: expect.stringMatching(/^onceward: The answer could not be written: .*ENOSPC/),
  })
})

test('a database that falls silent in the middle is given up', async () => {
  const { url } = await database()
  const { hostname, port } = new URL(url)
  await using link = await proxy({ host: hostname, port: Number(port) })
  link.onData = (_, chunk) => {
    if (chunk.includes('read only')) link.pause()
    return 'pass'
  }
  const silent = new URL(url)
  silent.host = `127.0.0.1:${link.port}`
  const { code, stderr } = await cli(['status'], { url: String(silent) })
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: expect.stringMatching(/PostgreSQL at .* has not answered for 35 seconds/),
  })
}, 90_000)

test('the completions of bash offer commands, subcommands and options', async () => {
  const { stdout } = await cli(['completion', 'bash'])
  const complete = (words: readonly string[]): readonly string[] => {
    const list = words.map((word) => `'${word}'`).join(' ')
    const script = `${stdout}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _onceward; echo "\${COMPREPLY[@]}"`
    return spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout.trim().split(' ')
  }
  expect(complete(['onceward', 'do'])).toEqual(['doctor'])
  expect(complete(['onceward', 'dead-letters', 'sh'])).toEqual(['show'])
  expect(complete(['onceward', 'dead-letters', 'replay', '--consumer', 'x', '--ye'])).toEqual([
    '--yes',
  ])
  expect(complete(['onceward', 'completion', ''])).toEqual(expect.arrayContaining(['bash', 'zsh']))
})
