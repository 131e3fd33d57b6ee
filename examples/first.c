/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* first.c - regular expressions, each compiled once and kept:  first PATTERN TEXT [PATTERN TEXT]... */
#include <larder.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

static int compile(const void *pattern, size_t size, void *arg, void **value, struct larder_load *load)
{
	regex_t *regex = malloc(sizeof(*regex));
	int error = regex == NULL ? REG_ESPACE : regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB);

	(void)size, (void)arg, (void)load;
	if (error == 0)
		*value = regex;
	else
		free(regex);
	return error;
}

static void discard(void *regex, void *ctx)
{
	(void)ctx;
	regfree(regex);
	free(regex);
}

int main(int argc, char **argv)
{
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_ref ref;

	larder_options_init(&options);
	options.capacity = 100;
	options.destroy = discard;
	if (larder_open(&cache, &options) != 0)
		return 2;
	for (int i = 1; i + 1 < argc; i += 2) { /* any number of threads may do this */
		int code = larder_get(cache, argv[i], strlen(argv[i]) + 1, compile, NULL, &ref);

		if (code == 0) {
			int no_match = regexec(larder_value(&ref), argv[i + 1], 0, NULL, 0);

			printf("%s: %s\n", argv[i + 1], no_match ? "no match" : "match");
			larder_release(&ref);
		} else {
			printf("%s: %s\n", argv[i], larder_strerror(code));
		}
	}
	return larder_close(cache) == 0 ? 0 : 1;
}
