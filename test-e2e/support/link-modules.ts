import { mkdir, readdir, readlink, symlink } from 'node:fs/promises'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Gives another checkout what is installed in this one, but for the packages of the repository, which are its own. */
export async function linkModules(checkout: string): Promise<void> {
  const installed = join(root, 'node_modules')
  const scope = '@onceward'
  await mkdir(join(checkout, 'node_modules', scope), { recursive: true })
  const scoped = (await readdir(join(installed, scope))).map((name) => join(scope, name))
  const names = (await readdir(installed)).filter((name) => name !== scope)
  for (const name of [...names, ...scoped]) {
    const path = join(installed, name)
    // npm links the packages of a repository by a relative path, which leads to those of the checkout.
    const target = await readlink(path).catch(() => path)
    await symlink(target, join(checkout, 'node_modules', name))
  }
}
