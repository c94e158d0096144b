/* Threads take parts of one list, while another thread reads the progress and finally stops them.
 *
 * Arguments: the file to read, `memory` or `file`, and `through` or `stop`. The findings are printed for comparison
 * with one thread; a sanitizer reports data races.
 */
#include "survey.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6, PART = 16 * I2S_BLOCK, ROOM = 4 * I2S_BLOCK };

static void *work(void *given) {
    i2s_survey_list *list = given;
    i2s_read_buffer buffer = {aligned_alloc(4096, 3 * ROOM), ROOM, 3 * ROOM, 0};
    while (i2s_survey_work(list, &buffer, 1 << 16)) {}
    free(buffer.start);
    return NULL;
}

int main(int count, char **words) {
    i2s_survey_list list = {0};
    pthread_t threads[THREADS];
    uint64_t lows = 0, highs = 0;
    int64_t size, i, seen = 0;
    uint8_t *held;
    int fd, stop;
    if (count != 4 || (fd = open(words[1], O_RDONLY)) < 0) return 2;
    stop = !strcmp(words[3], "stop");
    size = lseek(fd, 0, SEEK_END);
    held = malloc((size_t)size + 1);
    if (!i2s_read_fully(fd, held, size, 0)) return 2;
    list.count = (size + PART - 1) / PART;
    list.parts = calloc((size_t)list.count, sizeof(i2s_part));
    list.set = &i2s_survey_sets[0];
    list.failed = -1;
    list.fd = strcmp(words[2], "memory") ? fd : -1;
    list.memory = list.fd < 0 ? held : NULL;
    for (i = 0; i < list.count; i++) {
        list.parts[i].at = list.parts[i].pos = i * PART;
        list.parts[i].size = size - i * PART < PART ? size - i * PART : PART;
        i2s_part_begin(&list.parts[i]);
    }
    for (i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &list)) return 2;
    do {
        seen = i2s_survey_done(&list);
        if (stop && seen > size / 3) i2s_survey_stop(&list);
    } while (seen < size && i2s_survey_failed(&list) < 0 && !(stop && seen > size / 3));
    for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    seen = i2s_survey_done(&list);
    for (i = 1; i < list.count && !stop; i++) i2s_part_join(&list.parts[0], &list.parts[i]);
    lows = list.parts[0].lows, highs = list.parts[0].highs;
    printf("%lld %llu %llu\n", (long long)seen, (unsigned long long)lows, (unsigned long long)highs);
    for (i = 0; i < list.count; i++) free(list.parts[i].groups);
    free(list.parts);
    free(held);
    close(fd);
    return 0;
}
