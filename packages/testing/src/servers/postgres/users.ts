import { readFile } from 'node:fs/promises'
import { ServerMissingError } from '../run/server.ts'

/** An unprivileged user. */
export interface UnixUser {
  readonly uid: number
  readonly gid: number
}

/** Whom to run a program as that refuses to run as root; undefined when we are not root. */
export async function unprivilegedUser(service: string): Promise<UnixUser | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const passwd = await readFile('/etc/passwd', 'utf8')
  const entries = passwd.split('\n').map((line) => line.split(':'))
  const entry =
    entries.find(([name]) => name === 'postgres') ?? entries.find(([name]) => name === 'nobody')
  if (entry === undefined) {
    throw new ServerMissingError(
      `${service}: it refuses to run as root, and this machine has neither a user postgres nor ` +
        'nobody. Run as another user.',
    )
  }
  return { uid: Number(entry[2]), gid: Number(entry[3]) }
}
