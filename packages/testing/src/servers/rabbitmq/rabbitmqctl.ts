import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Server } from '../run/server.ts'
import { RABBITMQ_BIN } from './rabbitmq.ts'

/** `rabbitmqctl` with these arguments; resolves with what it printed. */
export type Rabbitmqctl = (...args: readonly string[]) => Promise<string>

/** For a node of our own on this machine; undefined where it cannot be had. */
export function rabbitmqctl(server: Server<unknown>): Rabbitmqctl | undefined {
  const command = join(RABBITMQ_BIN, 'rabbitmqctl')
  const env = environmentOf(server)
  if (env === undefined || !existsSync(command)) return undefined
  return async (...args) => (await promisify(execFile)(command, args, { env })).stdout
}

/** Evaluates Erlang in a node; resolves with the last value as Erlang prints it, and rejects if that fails. */
export type Erlang = (expressions: string) => Promise<string>

const ERL_CALL = '/usr/bin/erl_call'

/**
 * For a node of our own on this machine; undefined where it cannot be had. `rabbitmqctl` starts a whole Erlang, whose
 * threads wait for each other: 1 s on a quiet machine, but minutes on a busy one, where `erl_call` takes 0.3 s.
 */
export function erlang(server: Server<unknown>): Erlang | undefined {
  const env = environmentOf(server)
  const ctl = rabbitmqctl(server)
  const evaluate = ctl && (async (text: string) => (await ctl('eval', text)).trim())
  if (env === undefined || !existsSync(ERL_CALL)) return evaluate
  const call = callsOf(env)
  return (expressions) =>
    call(expressions).catch((error: unknown) => {
      // Seen once in a whole run of the tests: the node did not take the connection, so it has evaluated nothing.
      if (evaluate === undefined || !String(error).includes('failed to connect')) throw error
      return evaluate(expressions)
    })
}

function callsOf(env: NodeJS.ProcessEnv): Erlang {
  const name = env['RABBITMQ_NODENAME'] ?? ''
  return async (expressions) => {
    const cookie = await readFile(join(env['HOME'] ?? '', '.erlang.cookie'), 'utf8')
    const called = promisify(execFile)(ERL_CALL, ['-sname', name, '-c', cookie, '-e'], { env })
    // A command that has not found the node ends before it reads. Its exit says so, and the pipe need not.
    called.child.stdin?.on('error', () => undefined)
    called.child.stdin?.end(`${expressions}\n`)
    const { stdout } = await called
    // The command succeeds although what it evaluates throws.
    const value = /^\{ok, (.*)\}\s*$/s.exec(stdout)?.[1]
    if (value === undefined) throw new Error(`Erlang answered ${stdout}`)
    return value
  }
}

/** Its name, its cookie and its name server are in the environment that a node was started with. */
function environmentOf({ pid }: Server<unknown>): NodeJS.ProcessEnv | undefined {
  if (pid === undefined || !existsSync(`/proc/${pid}/environ`)) return undefined
  const entries = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean)
  return Object.fromEntries(
    entries.map((entry) => {
      const at = entry.indexOf('=')
      return [entry.slice(0, at), entry.slice(at + 1)]
    }),
  )
}

/** Above this much memory a node blocks its publishers. */
export function memoryLimit(size: '1MB' | '512MB'): string {
  return `ok = vm_memory_monitor:set_vm_memory_high_watermark({absolute, "${size}"}).`
}

/**
 * Resolves when a node that is killed from here on knows its quorum queues again. RabbitMQ 3.10 writes the name of a
 * new one up to three seconds late; killed before, the node has its log with all that was confirmed, but starts no
 * leader, and every use of the queue times out.
 */
export async function quorumQueuesOnDisk(server: Server<unknown>): Promise<void> {
  await erlang(server)?.('ok = dets:sync(ra_directory_reverse).')
}
